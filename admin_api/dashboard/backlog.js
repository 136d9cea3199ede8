// Backlogs of the answering sidecar's broker: how old, how much of the quota, who, and when it is reached.

import { read } from "./api.js";
import { fill, h, head, keyed, setAttribute, setText, table } from "./dom.js";
import { clock, counted, number, percent, span, withUnit } from "./format.js";
import { figure } from "./overview.js";

const HIGH = 0.8;
const COLUMNS = ["Topic", ["Oldest message"], ["Size"], "Quota used", "Reached in", "Oldest subscription", "Publishing"];
const ORDERS = [["used", "quota used"], ["age", "age"], ["size", "size"], ["topic", "name"]];

export function showBacklogs(page) {
  page.title("Backlogs");
  const parts = { order: "used", open: null };
  page.every(async () => {
    const found = await read(`/quota/v1/backlog?limit=200&order=${parts.order}`, page.signal);
    const actions = await read("/quota/v1/backlog/actions?limit=20", page.signal);
    if (!parts.rows) build(page, parts);
    page.fresh();
    show(parts, found, actions);
  });
}

function build(page, parts) {
  parts.figures = h("dl", { class: "figures" });
  parts.rows = h("tbody");
  parts.nothing = h("p", { class: "empty" }, "Nothing is unacknowledged.");
  parts.actions = h("ul", { class: "feed" });
  parts.none = h("p", { class: "minor" }, "Nothing was done about a quota.");
  const order = h("select", { id: "order", onchange: (event) => { parts.order = event.target.value; } }, ORDERS.map(([value, text]) => h("option", { value }, text)));
  fill(
    page.content,
    head("Backlogs", "What consumers of this sidecar's broker have not acknowledged. Other brokers' topics are shown by their own sidecars."),
    parts.figures,
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Topics"), h("label", { for: "order" }, "by ", order)), table("Topics with a backlog", COLUMNS, parts.rows), parts.nothing),
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Done about exceeded quotas")), h("div", { class: "body" }, parts.none, parts.actions)),
  );
}

function show(parts, found, actions) {
  fill(
    parts.figures,
    figure("Topics", number(found.topics), `of ${found.cluster || "this broker"}`),
    figure("With a backlog", number(found.withBacklog)),
    figure("Over their quota", number(found.exceeded), found.exceeded ? "now" : "none"),
    figure("Checks", number(found.checks), found.problem || `every ${span(found.intervalSeconds * 1000)}`),
  );
  keyed(parts.rows, found.rows, (row) => row.topic, (row) => topicRow(row.topic));
  parts.nothing.hidden = found.rows.length > 0;
  keyed(parts.actions, actions, (each) => `${each.atMs} ${each.topic} ${each.deed}`, () => actionRow());
  parts.none.hidden = actions.length > 0;
}

function topicRow(name) {
  const topic = h("th", { scope: "row" }, name);
  const age = h("td", { class: "number", "data-label": "Oldest message:" });
  const size = h("td", { class: "number", "data-label": "Size:" });
  const bar = h("i");
  const meter = h("div", { class: "meter", role: "meter", "aria-label": `Part of the quota of ${name}`, "aria-valuemin": 0, "aria-valuemax": 100 }, bar, h("b"));
  const used = h("span", { class: "minor" });
  const until = h("td", { "data-label": "Reached in:" });
  const who = h("td", { "data-label": "Oldest subscription:" });
  const publishing = h("td", { "data-label": "Publishing:" });
  const row = h("tr", {}, topic, age, size, h("td", { "data-label": "Quota used:" }, h("div", { class: "use" }, meter, used)), until, who, publishing);
  row.update = (found) => {
    setText(age, found.oldestBacklogMessageAgeSeconds < 0 ? "not known" : span(found.oldestBacklogMessageAgeSeconds * 1000) + skew(found));
    setText(size, withUnit(found.backlogSize, "B"));
    const share = Math.round(found.used * 100);
    bar.style.inlineSize = `${Math.min(100, share)}%`;
    meter.className = `meter${found.used >= 1 ? " full" : found.used >= HIGH ? " high" : ""}`;
    setAttribute(meter, "aria-valuenow", Math.min(100, share));
    setText(used, hasQuota(found) ? percent(found.used) : "no quota");
    setText(until, reached(found));
    setText(who, found.oldestBacklogMessageSubscriptionName + (found.internal ? " (Pulsar's own)" : ""));
    setText(publishing, counted(found.producerCount, "producer"));
  };
  return row;
}

const hasQuota = (found) => found.backlogQuotaLimitSize >= 0 || found.backlogQuotaLimitTime >= 0;

const skew = (found) => (found.clockSkew ? ` (its producer's clock is ${found.clockSkew})` : "");

/** The sooner of both quotas, with its band; "never" is what shrinks or stands still. */
function reached(found) {
  if (found.exceeded) return `over, by ${found.exceeded}`;
  const times = [found.untilSizeQuota, found.untilTimeQuota].filter((each) => each?.expectedSeconds != null);
  if (!times.length) return hasQuota(found) ? "not foreseen" : "–";
  const soonest = times.sort((one, other) => one.expectedSeconds - other.expectedSeconds)[0];
  const latest = soonest.latestSeconds == null ? "never" : span(soonest.latestSeconds * 1000);
  return `${span(soonest.expectedSeconds * 1000)} (${span((soonest.earliestSeconds ?? 0) * 1000)} to ${latest})`;
}

function actionRow() {
  const when = h("span", { class: "minor" });
  const deed = h("span", { class: "tag" });
  const topic = h("span", { class: "who" });
  const what = h("span", { class: "what" });
  const row = h("li", {}, when, h("span", {}, deed), topic, what);
  row.update = (action) => {
    setText(when, clock(Date.now() - action.atMs));
    setText(deed, action.dryRun ? `${action.deed}, dry run` : action.deed);
    setText(topic, action.topic);
    setText(what, `${number(action.value)} of ${number(action.limit)} ${action.quotaType === "size" ? "bytes" : "s"} · ${action.outcome}`);
  };
  return row;
}
