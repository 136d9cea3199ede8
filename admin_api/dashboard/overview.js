// All groups: one row each, sorted and filtered by the sidecar, a page at a time.

import { read } from "./api.js";
import { fill, h, keyed, s, setAttribute, setText } from "./dom.js";
import { counted, DIMENSIONS, number, percent, rate, span, withUnit } from "./format.js";

const PAGE = 50;
const STANDINGS = ["settled", "converging", "degraded", "idle", "unlimited"];
const COLUMNS = [
  ["name", "Group"],
  ["limit", "Limit", "number"],
  ["used", "Used"],
  ["throttled", "Throttled"],
  [null, "Round the gate", "number"],
  ["standing", "State"],
  [null, "Recent", "recent"],
];

// How the list was left is how it is found again.
const view = { contains: "", standing: "", sort: "used", reverse: false, offset: 0 };

export function showOverview(page) {
  page.title("Groups");
  const figures = h("dl", { class: "figures" });
  const search = h("input", {
    type: "search",
    placeholder: "Find a group",
    "aria-label": "Find a group by a part of its name",
    value: view.contains,
    oninput: () => change({ contains: search.value.trim(), offset: 0 }),
  });
  // The heads of columns sort, too, but a narrow screen shows none.
  const order = h(
    "select",
    { class: "order", "aria-label": "Sort groups", onchange: () => change({ sort: order.value, reverse: false, offset: 0 }) },
    COLUMNS.filter(([key]) => key).map(([key, name]) => h("option", { value: key }, `by ${name.toLowerCase()}`)),
  );
  order.value = view.sort;
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Only groups that are" });
  const heads = COLUMNS.map(([key, name, kind]) => head(key, name, kind));
  const rows = h("tbody");
  const found = h("p", { class: "sr", role: "status" });
  const nothing = h("p", { class: "empty", hidden: true });
  const table = h(
    "table",
    { class: "groups" },
    h("caption", { class: "sr" }, "Resource groups"),
    h("thead", {}, h("tr", {}, heads.map((each) => each.element))),
    rows,
  );
  const where = h("span");
  const back = h("button", { class: "button", onclick: () => change({ offset: view.offset - PAGE }) }, "Previous");
  const on = h("button", { class: "button", onclick: () => change({ offset: view.offset + PAGE }) }, "Next");
  const pager = h("nav", { class: "pager", "aria-label": "Pages of groups" }, where, back, on);
  fill(
    page.content,
    h("h1", { class: "sr" }, "Groups"),
    figures,
    h("div", { class: "tools" }, h("div", { class: "search" }, search), order, chips),
    h("section", { class: "card" }, h("div", { class: "scroll" }, table), nothing, found, pager),
  );

  let asked = 0;
  async function look() {
    const mine = ++asked;
    const query = new URLSearchParams({ ...view, limit: PAGE });
    if (!view.standing) query.delete("standing");
    const answer = await read(`/quota/v1/overview?${query}`, page.signal);
    if (mine !== asked) return;
    page.fresh(answer.ageMillis);
    draw(answer);
  }

  async function change(what) {
    Object.assign(view, what);
    view.offset = Math.max(0, view.offset);
    for (const each of heads) each.update();
    order.value = view.sort;
    await look().catch((error) => error.name === "AbortError" || setText(where, error.message));
  }

  function head(key, name, kind) {
    if (key === null) return { element: h("th", { scope: "col", class: kind }, name), update() {} };
    const arrow = h("span", { class: "arrow", "aria-hidden": "true" });
    const element = h(
      "th",
      { scope: "col", class: kind },
      h(
        "button",
        { onclick: () => change({ sort: key, reverse: view.sort === key && !view.reverse, offset: 0 }) },
        name,
        arrow,
      ),
    );
    const update = () => {
      const ascending = (key === "name") !== view.reverse;
      const chosen = view.sort === key;
      setAttribute(element, "aria-sort", chosen ? (ascending ? "ascending" : "descending") : null);
      setText(arrow, chosen ? (ascending ? "▲" : "▼") : "");
    };
    update();
    return { element, update };
  }

  function draw(answer) {
    fill(
      figures,
      figure("Groups", number(answer.groups)),
      figure("Throttled", number(answer.throttled), "of them"),
      figure("Converging", number(answer.standings.converging ?? 0)),
      figure("Brokers", number(answer.members)),
      figure("Seen by", answer.broker, answer.state.toLowerCase()),
    );
    drawChips(answer.standings, answer.groups);
    keyed(rows, answer.rows, (row) => row.group, createRow);
    const last = view.offset + answer.rows.length;
    const range = answer.rows.length ? `${number(view.offset + 1)}–${number(last)} of ` : "";
    setText(where, `${range}${number(answer.matching)}`);
    setText(found, `${counted(answer.matching, "group")} shown`);
    back.disabled = view.offset === 0;
    on.disabled = last >= answer.matching;
    pager.hidden = answer.matching <= PAGE && view.offset === 0;
    nothing.hidden = answer.matching > 0;
    table.hidden = answer.matching === 0;
    setText(
      nothing,
      answer.groups
        ? "No group is like that."
        : "There are no resource groups yet. Create one: pulsar-quota groups create orders -mp 3000",
    );
  }

  function drawChips(standings, all) {
    const items = [["", "all", all], ...STANDINGS.filter((name) => standings[name] || view.standing === name).map((name) => [name, name, standings[name] ?? 0])];
    keyed(chips, items, ([key]) => `chip-${key}`, ([key]) => {
      const chip = h("button", { class: "chip", onclick: () => change({ standing: key, offset: 0 }) });
      chip.update = ([name, text, count]) => {
        setText(chip, `${text} ${number(count)}`);
        setAttribute(chip, "aria-pressed", String(view.standing === name));
      };
      return chip;
    });
  }

  page.every(look);
}

export function figure(name, value, more) {
  return h("div", { class: "figure" }, h("dt", {}, name), h("dd", {}, value, more ? h("small", {}, ` ${more}`) : null));
}

/** A bar that shows how much of something is used, with a mark at 80 %. */
export function meter(name) {
  const bar = h("i");
  const element = h("div", { class: "meter", role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 100 }, bar, h("b"));
  return {
    element,
    update(share, text) {
      const shown = Math.max(0, Math.min(1, share));
      bar.style.width = `${shown * 100}%`;
      element.classList.toggle("high", share >= 0.8 && share < 0.98);
      element.classList.toggle("full", share >= 0.98);
      setAttribute(element, "aria-valuenow", Math.round(shown * 100));
      setAttribute(element, "aria-valuetext", text);
    },
  };
}

function createRow(first) {
  const link = h("a", { href: `#/groups/${encodeURIComponent(first.group)}` }, first.group);
  const limit = h("span");
  const what = h("div", { class: "minor" });
  const use = meter(`Used by ${first.group}`);
  const used = h("span", { class: "number" });
  const throttled = h("td", { "data-label": "Throttled:" });
  const escaping = h("td", { class: "number", "data-label": "Round the gate:" });
  const tag = h("span");
  const since = h("span", { class: "minor" });
  const recent = h("td", { class: "recent" });
  const row = h(
    "tr",
    {},
    h("th", { scope: "row" }, link),
    h("td", { class: "number" }, limit, what),
    h("td", {}, h("div", { class: "use" }, use.element, used)),
    throttled,
    escaping,
    h("td", {}, tag, " ", since),
    recent,
  );
  row.update = (shown) => {
    const binding = shown.dimensions.find((each) => each.dimension === shown.foremost);
    const { unit } = DIMENSIONS[binding?.dimension] ?? {};
    setText(limit, binding ? withUnit(binding.limit, unit) : "unlimited");
    setText(what, binding ? (binding.dimension.startsWith("dispatch") ? "dispatched" : "published") : "");
    use.update(binding?.used ?? 0, binding ? `${percent(binding.used)} of ${withUnit(binding.limit, unit)}` : "not limited");
    use.element.parentElement.classList.toggle("none", !binding);
    setText(used, binding ? percent(binding.used) : "–");
    const names = shown.throttled.slice(0, 2).join(", ");
    const more = shown.throttledCount - Math.min(2, shown.throttled.length);
    setText(throttled, shown.throttledCount ? names + (more > 0 ? ` and ${more} more` : "") : "–");
    setText(escaping, shown.escapingBytes ? withUnit(shown.escapingBytes, "B/s") : "–");
    tag.className = `tag ${shown.standing}`;
    setText(tag, shown.standing);
    const moving = shown.standing === "converging" || shown.standing === "degraded";
    setText(since, shown.observed ? "tried out: holds nothing back" : moving ? `for ${span(shown.standingAgeMillis)}` : "");
    fill(recent, spark(shown.recent, binding?.limit, unit));
  };
  return row;
}

function spark(values, limit, unit) {
  if (values.length < 2) return null;
  const top = Math.max(limit ?? 0, ...values, 1) * 1.05;
  const x = (index) => ((index * 100) / (values.length - 1)).toFixed(1);
  const y = (value) => (30 - (value * 30) / top).toFixed(1);
  const path = values.map((value, index) => `${index ? "L" : "M"}${x(index)} ${y(value)}`).join("");
  const text = `last minute: from ${rate(Math.min(...values))} to ${withUnit(Math.max(...values), unit)}`;
  return s(
    "svg",
    { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img", "aria-label": text },
    limit ? s("line", { x1: 0, x2: 100, y1: y(limit), y2: y(limit) }) : null,
    s("path", { class: "under", d: `${path}L100 30L0 30Z` }),
    s("path", { d: path }),
  );
}
