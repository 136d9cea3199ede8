// The tree of a group: what each group has of its parent's limit, is guaranteed, uses and borrows.

import { read } from "./api.js";
import { h, keyed, setAttribute, setText, table } from "./dom.js";
import { rate } from "./format.js";

const COLUMNS = ["Limit", "Guaranteed", "Wants", "Has", "Uses", "Borrows"];

/** A card that is hidden until the group has relatives. */
export function treeCard(page, name) {
  const rows = h("tbody");
  const element = h(
    "section",
    { class: "card", hidden: true },
    h("header", {}, h("h2", {}, "Tree"), h("span", { class: "note" }, "all brokers together, per second")),
    table("What every group of the tree may, wants and does", ["Group", ...COLUMNS.map((each) => [each])], rows),
  );

  /** Show the tree in a dimension; nothing if the group has neither a parent nor children. */
  async function look(dimension, hasRelatives) {
    element.hidden = !hasRelatives;
    if (!hasRelatives) return;
    const tree = await read(`/quota/v1/trees/${encodeURIComponent(name)}?dimension=${dimension}`, page.signal);
    keyed(rows, tree.groups, (each) => each.group, (each) => groupRow(each, name));
  }

  return { element, look };
}

function groupRow(first, own) {
  const cells = COLUMNS.map((label) => h("td", { class: "number", "data-label": `${label}:` }));
  const link = h("a", { href: `#/groups/${encodeURIComponent(first.group)}` }, first.group);
  setAttribute(link, "aria-current", first.group === own ? "page" : null);
  const indent = h("span", { "aria-hidden": "true" });
  const row = h("tr", {}, h("th", { scope: "row" }, indent, link), cells);
  row.update = (each) => {
    setText(indent, "\u2003".repeat(each.level));
    const texts = [
      rate(each.limit),
      each.guarantee ? rate(each.guarantee) : "–",
      each.wants === null ? "more" : rate(each.wants),
      rate(each.part),
      rate(each.admitted),
      each.borrowed ? rate(each.borrowed) : "–",
    ];
    cells.forEach((cell, at) => setText(cell, texts[at]));
  };
  return row;
}
