// One group: what its brokers do over time, why, and what a change would do.

import { Problem, read } from "./api.js";
import { changeForm } from "./change.js";
import { Chart, Samples } from "./chart.js";
import { decisionList } from "./decisions.js";
import { fill, h, keyed, setAttribute, setText, table } from "./dom.js";
import { DIMENSIONS, exact, number, percent, rate, span, withUnit } from "./format.js";
import { operationRow } from "./operations.js";
import { figure, meter } from "./overview.js";
import { treeCard } from "./tree.js";

export function showGroup(page, name) {
  page.title(name);
  const path = encodeURIComponent(name);
  let dimension = null;
  let samples = new Samples();

  const tag = h("span", { class: "tag" });
  const observed = h("span", { class: "tag", hidden: true }, "tried out: holds nothing back");
  const sentence = h("p", { class: "sentence" });
  const isTopic = name.startsWith("topic://");
  const figures = h("dl", { class: "figures" });
  const tabs = h("div", { class: "chips", role: "group", "aria-label": "Dimension" });
  const chart = new Chart();
  const words = h("p", { class: "sr" });
  const legend = h("ul", { class: "legend" });
  const brokers = h("tbody");
  const definition = h("dl", { class: "pairs" });
  const attached = h("div");
  const operations = h("ul", { class: "feed close" });
  const noOperations = h("p", { class: "empty" }, "No change of this group is on record.");
  const decisions = decisionList(page, path);
  const tree = treeCard(page, name);
  let hasRelatives = false;
  const brokersNote = h("span", { class: "note" });

  // A group without a limit has no samples.
  const overTime = h(
    "section",
    { class: "card", "aria-label": "Over time", hidden: true },
    h("header", {}, h("h2", {}, "Admitted by broker, under the limit"), tabs),
    h("div", { class: "body" }, chart.element, words, legend),
  );
  const back = h("a", { class: "back", href: "#/" }, "← All groups");
  const parts = [
    back,
    h("div", { class: "head" }, h("h1", {}, name), tag, observed),
    figures,
    overTime,
    h(
      "div",
      { class: "columns" },
      h(
        "div",
        {},
        h(
          "section",
          { class: "card" },
          h("header", {}, h("h2", {}, "Why this limit"), brokersNote),
          h("div", { class: "body" }, sentence),
          table("What every broker wants, may and does", ["Broker", ["Wants"], ["Limit"], ["Admitted"], "Share of fair", ["Waiting"], ["Report age"]], brokers),
        ),
        tree.element,
        h("section", { class: "card" }, h("header", {}, h("h2", {}, "Operations")), operations, noOperations),
        decisions.element,
      ),
      h(
        "div",
        {},
        isTopic ? null : h("section", { class: "card" }, h("header", {}, h("h2", {}, "Try a change"), h("span", { class: "note" }, "preview it first, then apply it")), h("div", { class: "body" }, changeForm(page, name, () => { lookAtDefinition(); lookAtOperations(); }))),
        h("section", { class: "card" }, h("header", {}, h("h2", {}, "Definition")), h("div", { class: "body" }, definition)),
        h("section", { class: "card" }, h("header", {}, h("h2", {}, "Attached")), h("div", { class: "body" }, attached)),
      ),
    ),
  ];
  fill(page.content, ...parts);
  let isMissing = false;

  /** Show a reason in place of empty cards while there is no such group; it may come, or come back. */
  function miss(reason) {
    if (!isMissing) fill(page.content, back, h("div", { class: "head" }, h("h1", {}, name)), h("p", { class: "problem", role: "alert" }, reason));
    isMissing = true;
  }

  function find() {
    if (isMissing) fill(page.content, ...parts);
    isMissing = false;
  }

  async function lookAtDefinition() {
    const found = await read(`/quota/v1/groups/${path}`, page.signal);
    const limited = Object.keys(DIMENSIONS).filter((key) => found[key] !== -1);
    if (dimension === null || !limited.includes(dimension)) choose(limited[0] ?? Object.keys(DIMENSIONS)[0]);
    overTime.hidden = limited.length === 0;
    keyed(tabs, limited, (key) => key, (key) => {
      const tab = h("button", { class: "chip", onclick: () => { choose(key); look(); } }, DIMENSIONS[key].name);
      tab.update = () => setAttribute(tab, "aria-pressed", String(key === dimension));
      return tab;
    });
    const pairs = [
      ...Object.entries(DIMENSIONS).map(([key, { name: what, unit }]) => [what, found[key] === -1 ? "unlimited" : `${exact(found[key])} ${unit}`]),
      ["law", found.law],
      ["weights", found.weights],
      ["overshoot policy", found.overshootPolicy],
      ["partition policy", found.partitionPolicy],
      ["enforcement", found.enforcement + (found.observes ? `, on the traffic of ${found.observes}` : "")],
      ["on limit", found.onLimit === "refuse" ? `refuse after ${found.holdMillis} ms` : found.onLimit],
      ...(found.burstSeconds ? [["burst", `${found.burstSeconds} s of the limit`]] : []),
      ...(found.parent ? [["parent", found.parent], ["weight", String(found.weight)]] : []),
      ...(found.allowedTenants.length ? [["allowed tenants", found.allowedTenants.join(", ")]] : []),
      ["version", String(found.configurationVersion)],
    ];
    hasRelatives = Boolean(found.parent || found.children?.length);
    fill(definition, pairs.map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]).flat());
    const owners = [...found.attachments.tenants, ...found.attachments.namespaces, ...found.attachments.roles.map((role) => `role ${role}`), ...(found.attachments.defaultRole ? ["roles without an attachment"] : []), ...found.attachments.subscriptions.map((name) => `subscription ${name}`), ...found.attachments.remoteClusters.map((name) => `replication from ${name}`), ...(found.attachments.topics ?? [])];
    fill(attached, owners.length
      ? h("ul", { class: "list" }, owners.slice(0, 60).map((owner) => h("li", {}, owner)), owners.length > 60 ? h("li", {}, `and ${owners.length - 60} more`) : null)
      : h("p", { class: "minor" }, isTopic
        ? "A scalable topic: all its segments count against its limit."
        : "Nothing is attached, so nothing counts against this group."));
  }

  function choose(key) {
    dimension = key;
    samples = new Samples();
    for (const tab of tabs.children) tab.update(tab.dataset.key);
  }

  async function lookAtOperations() {
    const found = await read(`/quota/v1/operations?group=${path}&limit=10`, page.signal);
    keyed(operations, found, (each) => String(each.id), operationRow);
    noOperations.hidden = found.length > 0;
  }

  async function look() {
    if (dimension === null) await lookAtDefinition();
    const wanted = dimension;
    const [past, why] = await Promise.all([
      read(`/quota/v1/history/${path}?dimension=${wanted}&after=${samples.last}`, page.signal),
      read(`/quota/v1/explain/${path}?dimension=${wanted}`, page.signal),
    ]);
    if (why.clusterLimit === -1) why.wants = unlimited(await read(`/quota/v1/usage/${path}`, page.signal), wanted);
    if (wanted !== dimension) return;
    samples.take(past);
    page.fresh(samples.age());
    const { unit } = DIMENSIONS[wanted];
    chart.draw(samples, unit);
    drawWhy(why);
    setText(words, samples.text(unit));
    fill(
      legend,
      samples.layers().map((layer) => {
        const swatch = h("span", { class: "swatch" });
        swatch.style.background = `var(${layer.color})`;
        return h("li", {}, swatch, layer.name);
      }),
      h("li", {}, h("span", { class: "swatch line" }), "limit"),
      samples.marks.length ? h("li", {}, "▲ joined ▼ left ◆ changed ● degradation") : null,
    );
    await Promise.all([decisions.look(wanted, why.broker), tree.look(wanted, hasRelatives)]);
  }

  function drawWhy(why) {
    const admitted = why.wants.reduce((sum, want) => sum + want.admitted, 0);
    const throttled = why.wants.filter((want) => want.throttledShare > 0.1);
    const { unit } = DIMENSIONS[why.dimension];
    fill(
      figures,
      figure("Limit", ...amount(why.clusterLimit, unit)),
      figure("Admitted", ...amount(admitted, unit, why.clusterLimit > 0 ? `${percent(admitted / why.clusterLimit)} used` : "")),
      figure("Brokers", String(why.wants.length), throttled.length ? `${throttled.length} throttled` : "none throttled"),
      why.waterLevel === null ? figure("Water level", "none", "all get what they want") : figure("Water level", ...amount(why.waterLevel, unit)),
    );
    setText(sentence, [why.sentence, why.wouldChange.length ? `This would change it: ${why.wouldChange.join("; ")}.` : "", ...why.delayed, ...why.debt, why.slack, ...why.roles].filter(Boolean).join(" "));
    setText(brokersNote, `in ${unit}, decided ${span(why.decidedAgeMillis)} ago by ${why.broker}, round ${number(why.round)}`);
    const order = [...why.wants].sort((a, b) => b.admitted - a.admitted || (a.broker < b.broker ? -1 : 1));
    keyed(brokers, order, (want) => want.broker, (want) => brokerRow(want.broker, why.broker));
    for (const row of brokers.children) row.level(why.waterLevel);
  }

  page.every(async () => {
    try {
      await look();
    } catch (error) {
      if (error instanceof Problem && error.status === 404) miss(error.message);
      throw error;
    }
    find();
  });
  page.every(lookAtOperations);
  page.every(async () => {
    const [mine] = (await read(`/quota/v1/overview?group=${path}`, page.signal)).rows;
    tag.className = `tag ${mine?.standing ?? ""}`;
    setText(tag, mine ? `${mine.standing} for ${span(mine.standingAgeMillis)}` : "new");
    observed.hidden = !mine?.observed;
  });
  page.every(lookAtDefinition, 10_000);
}

/** The brokers of a group without a limit: no decision knows them, and each has what it wants. */
function unlimited(usage, dimension) {
  return usage.brokers.filter((each) => each.participants > 0).map((each) => ({
    broker: each.broker,
    wants: each.admitted[dimension],
    admitted: each.admitted[dimension],
    weight: 1,
    limit: -1,
    throttledShare: 0,
    reportAgeMillis: each.reportAgeMillis,
  }));
}

/** A figure's value, and its unit with what else there is to say in smaller letters. */
function amount(value, unit, more = "") {
  const [digits, ...sign] = withUnit(value, unit).split(" ");
  return [digits, [sign.join(" "), more].filter(Boolean).join(", ")];
}

function brokerRow(broker, own) {
  const cells = ["Wants:", "Limit:", "Admitted:", "Waiting:", "Report age:"].map((label) => h("td", { class: "number", "data-label": label }));
  const [wants, limit, admitted, waiting, age] = cells;
  const title = h("th", { scope: "row" });
  const use = meter(`Share of fair of ${broker}`);
  use.element.classList.add("fair");
  const share = h("span", { class: "number" });
  const row = h("tr", {}, title, wants, limit, admitted, h("td", { class: "share" }, h("div", { class: "use" }, use.element, share)), waiting, age);
  let shown = null;
  row.update = (want) => {
    shown = want;
    setText(title, want.broker + (want.broker === own ? " (answers)" : ""));
    setText(wants, want.wants === null ? `> ${rate(want.limit === -1 ? want.admitted : want.limit)}` : rate(want.wants));
    setText(limit, rate(want.limit));
    setText(admitted, rate(want.admitted));
    setText(waiting, percent(want.throttledShare));
    setText(age, span(want.reportAgeMillis));
  };
  row.level = (waterLevel) => {
    const fair = fairShare(shown, waterLevel);
    const part = fair ? shown.admitted / fair : null;
    use.update(part ?? 0, part === null ? "not known" : percent(part));
    use.element.classList.remove("high", "full");
    setText(share, percent(part));
  };
  return row;
}

function fairShare(want, waterLevel) {
  if (waterLevel === null) return want.wants;
  const level = waterLevel * want.weight;
  return want.wants === null ? level : Math.min(want.wants, level);
}
