// What happens, as it happens.

import { follow } from "./api.js";
import { fill, h, head, setText } from "./dom.js";
import { clock } from "./format.js";

const SHOWN = 300;

export function showEvents(page) {
  page.title("Events");
  const list = h("ol", { class: "feed", "aria-label": "Events, newest first" });
  const nothing = h("p", { class: "empty" }, "Nothing has happened since this sidecar started.");
  const state = h("span", { class: "note", role: "status" });
  fill(
    page.content,
    head("Events", "Joins, leaves, changes, throttling and degradations as this sidecar sees them, newest first."),
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Live"), state), list, nothing),
  );
  follow(
    "/quota/v1/events",
    (mark) => {
      nothing.hidden = true;
      const when = clock(mark.ageMillis);
      list.prepend(h(
        "li",
        {},
        h("time", { class: "minor" }, when),
        h("span", {}, h("span", { class: `tag ${mark.kind}` }, mark.kind)),
        h("span", { class: "who" }, mark.subject),
        h("span", { class: "what" }, mark.text),
      ));
      while (list.children.length > SHOWN) list.lastElementChild.remove();
    },
    () => {
      page.fresh();
      setText(state, "connected");
    },
    (why) => setText(state, `${why}; trying again`),
    page.signal,
  );
  page.every(async () => undefined, 60_000);
}
