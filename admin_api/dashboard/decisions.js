// What was decided on one group's local limit, newest first, with the reason that was given then.

import { read } from "./api.js";
import { h, keyed, setText } from "./dom.js";
import { clock, DIMENSIONS, withUnit } from "./format.js";

/** The past decisions of a group; ask for those of a dimension with look. */
export function decisionList(page, path) {
  const list = h("ol", { class: "feed close", "aria-label": "Decisions, newest first" });
  const nothing = h("p", { class: "empty" }, "Nothing was decided yet.");
  const note = h("span", { class: "note" });
  const element = h("section", { class: "card" }, h("header", {}, h("h2", {}, "What was decided"), note), list, nothing);

  async function look(dimension, broker) {
    const found = await read(`/quota/v1/decisions/${path}?dimension=${dimension}&limit=12`, page.signal);
    setText(note, `on the limit of ${broker}, which answers`);
    keyed(list, found, (each) => `${dimension} ${each.number}`, (each) => decisionRow(each, DIMENSIONS[dimension].unit));
    nothing.hidden = found.length > 0;
  }
  return { element, look };
}

function decisionRow(decision, unit) {
  const row = h(
    "li",
    {},
    h("time", { class: "minor" }, clock(decision.ageMillis)),
    h("span", {}, h("span", { class: `tag ${decision.binding}` }, decision.binding)),
    h("span", { class: "who" }, withUnit(decision.localLimit, unit)),
    h("span", { class: "what" }, decision.sentence),
  );
  row.update = () => undefined;
  return row;
}
