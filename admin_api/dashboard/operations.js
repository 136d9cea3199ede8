// Every change on record: who made it, whether the cluster has settled on it, who gained and who lost.

import { read } from "./api.js";
import { fill, h, head, keyed, setText } from "./dom.js";
import { DIMENSIONS, percent, span, withUnit } from "./format.js";

const NAMED = 3;

export function showOperations(page) {
  page.title("Operations");
  const list = h("ul", { class: "feed" });
  const nothing = h("p", { class: "empty" }, "Nothing was changed yet.");
  fill(
    page.content,
    head("Operations", "Every change of a group or an attachment, from accepted to settled. The record is kept in ZooKeeper, so it outlives the sidecar that took the change."),
    h("section", { class: "card" }, list, nothing),
  );
  page.every(async () => {
    const found = await read("/quota/v1/operations?limit=100", page.signal);
    page.fresh();
    keyed(list, found, (each) => String(each.id), operationRow);
    nothing.hidden = found.length > 0;
  });
}

/** One operation as a line. */
export function operationRow() {
  const when = h("span", { class: "minor" });
  const tag = h("span", { class: "tag" });
  const who = h("a", { class: "who" });
  const what = h("span", { class: "what" });
  const row = h("li", {}, when, h("span", {}, tag), who, what);
  row.update = (operation) => {
    setText(when, `${span(operation.ageMillis)} ago`);
    tag.className = `tag ${operation.state}`;
    setText(tag, operation.state);
    setText(who, operation.group || operation.subject);
    if (operation.group) who.setAttribute("href", `#/groups/${encodeURIComponent(operation.group)}`);
    setText(what, sentence(operation));
  };
  return row;
}

function sentence(operation) {
  const parts = [`${operation.text} by ${operation.actor}`];
  if (operation.settleMillis !== null) parts.push(`settled after ${span(operation.settleMillis)}, ${percent(operation.residual)} off`);
  const [dimension, by = {}] = Object.entries(operation.moved)[0] ?? [];
  const moves = Object.entries(by);
  const told = (sign, verb) => {
    const those = moves.filter(([, change]) => Math.sign(change) === sign).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
    if (!those.length) return;
    const more = those.length > NAMED ? ` and ${those.length - NAMED} more` : "";
    parts.push(`${verb}: ${those.slice(0, NAMED).map(([broker, change]) => `${broker} ${withUnit(Math.abs(change), DIMENSIONS[dimension].unit)}`).join(", ")}${more}`);
  };
  told(1, "gained");
  told(-1, "lost");
  return parts.join(" · ");
}
