// Every live sidecar: who it is, whether it is heard, and whether it goes by the same as this one.

import { read } from "./api.js";
import { fill, h, head, keyed, setText, table } from "./dom.js";
import { counted, number, span } from "./format.js";
import { figure } from "./overview.js";

const HELD_BY = { gate: "gate", native: "broker's limiter", "gate+native": "gate, then broker" };

export function showMembers(page) {
  page.title("Members");
  const figures = h("dl", { class: "figures" });
  const rows = h("tbody");
  const dropped = h("div", { class: "body" });
  fill(
    page.content,
    head("Members", "One sidecar stands beside each broker. There is no leader: each of them can show all of this."),
    figures,
    h("section", { class: "card" }, table("Live sidecars", ["Broker", "State", ["Last report"], "View", "API", ["Incarnation"]], rows)),
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Reports not believed")), dropped),
  );

  page.every(async () => {
    const health = await read("/quota/v1/health", page.signal);
    page.fresh();
    const disagreeing = new Map((health.disagreements ?? []).map((each) => [each.peer, each]));
    fill(
      figures,
      figure("Members", number(health.members.length)),
      figure("Answering", health.broker, health.state.toLowerCase()),
      figure("Limits held by", HELD_BY[health.enforcementPath], `at ${health.broker}`),
      figure("Round", number(health.round)),
      figure("Other views", number(disagreeing.size), disagreeing.size ? (disagreeing.size === 1 ? "differs" : "differ") : "all agree"),
    );
    keyed(rows, health.members, (member) => member.broker, () => memberRow());
    for (const row of rows.children) row.judge(health, disagreeing);
    const reasons = [
      ...Object.entries(health.reportsDropped).map(([why, count]) => `${counted(count, "report")}: ${why}`),
      ...Object.entries(health.foreignReports).map(([name, count]) => `${counted(count, "report")} in the name of ${name} came from elsewhere`),
      ...Object.entries(health.announcementsCapped).map(([name, count]) => `${name} announced more than twice its target ${counted(count, "time")}`),
    ];
    fill(dropped, reasons.length
      ? h("ul", { class: "list" }, reasons.map((reason) => h("li", {}, reason)))
      : h("p", { class: "minor" }, "None since this sidecar started."));
  });
}

function memberRow() {
  const title = h("th", { scope: "row" });
  const tag = h("span", { class: "tag" });
  const heard = h("td", { class: "number", "data-label": "Last report:" });
  const view = h("td", { "data-label": "View:" });
  const address = h("td", { class: "long", "data-label": "API:" });
  const incarnation = h("td", { class: "number", "data-label": "Incarnation:" });
  const row = h("tr", {}, title, h("td", {}, tag), heard, view, address, incarnation);
  let shown = null;
  row.update = (member) => {
    shown = member;
    setText(heard, member.reportAgeMillis === null ? "none yet" : `${span(member.reportAgeMillis)} ago`);
    setText(address, member.apiAddress || "–");
    setText(incarnation, String(member.incarnation));
  };
  row.judge = (health, disagreeing) => {
    const own = shown.broker === health.broker;
    setText(title, shown.broker + (own ? " (answers)" : ""));
    const age = shown.reportAgeMillis;
    const state = own ? health.state : age === null ? "LEARNING" : shown.silent ? "DEGRADED" : "ACTIVE";
    tag.className = `tag ${state}`;
    setText(tag, own ? state.toLowerCase() : age === null ? "joining" : shown.silent ? "silent" : "heard");
    const differs = disagreeing.get(shown.broker);
    setText(view, own ? "this one" : differs ? `other ${differs.matter}` : age === null || shown.silent ? "not known" : "the same");
  };
  return row;
}
