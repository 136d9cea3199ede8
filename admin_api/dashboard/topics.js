// Topics of the answering sidecar's broker: what partitions use of their limit, and delayed messages.

import { Problem, read } from "./api.js";
import { fill, h, head, keyed, setText, table } from "./dom.js";
import { counted, DIMENSIONS, number, percent, withUnit } from "./format.js";
import { figure, meter } from "./overview.js";

const HIGH = 0.8;
const COLUMNS = ["Partition", "Used", ["Busiest second"], ["Average"], "Waited", "What would do"];

export function showTopics(page) {
  page.title("Topics");
  const figures = h("dl", { class: "figures" });
  const rows = h("tbody");
  const nothing = h("p", { class: "empty" }, "No partition with a limit was used in the last two minutes. partition_publish_rate_in_msgs and its siblings in the sidecar's configuration limit each partition.");
  const warnings = h("ul", { class: "list" });
  const late = h("p", { class: "minor" });
  fill(
    page.content,
    head("Topics", "What was used of the limits of single partitions at this sidecar's gate. Other brokers' topics are shown by their own sidecars."),
    figures,
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Partitions")), table("Partitions, the busiest first", COLUMNS, rows), nothing),
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Delayed messages")), h("div", { class: "body" }, late, warnings)),
  );
  let countsDelayed = true;

  page.every(async () => {
    const partitions = await read("/quota/v1/gate/partitions?limit=200", page.signal);
    const delayed = countsDelayed ? await delayedMessages(page.signal) : null;
    countsDelayed = delayed !== null;
    page.fresh();
    const advised = partitions.filter((each) => each.used > HIGH);
    fill(
      figures,
      figure("Partitions", number(partitions.length), "used lately"),
      figure("Above 80 %", number(advised.length), advised.length ? "of their limit" : "none"),
      figure("Delayed messages", delayed ? number(delayed.messages) : "–", delayed ? `count for ${delayed.group}` : "not counted apart"),
      figure("Due at once", delayed ? number(delayed.due) : "–", delayed ? "no effect" : ""),
    );
    keyed(rows, partitions, (each) => each.topic, (each) => partitionRow(each.topic));
    nothing.hidden = partitions.length > 0;
    const told = delayed ? delayed.topics.flatMap((topic) => topic.warnings) : [];
    fill(warnings, told.map((warning) => h("li", {}, warning)));
    setText(late, delayed ? (told.length ? "Setting deliver_at_time has no effect here:" : "No client sets deliver_at_time to no effect.") : "They are not counted apart: delayed_group in the sidecar's configuration names the resource group that they count against.");
  });
}

/** What the gate knows of delayed messages; null when it does not count them. */
async function delayedMessages(signal) {
  try {
    return await read("/quota/v1/gate/delayed?limit=50", signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

function partitionRow(name) {
  const topic = h("th", { scope: "row" }, name);
  const use = meter(`Part of the limit of ${name}`);
  const share = h("span", { class: "number" });
  const peak = h("td", { class: "number long", "data-label": "Busiest second:" });
  const average = h("td", { class: "number", "data-label": "Average:" });
  const waited = h("td", { "data-label": "Waited:" });
  const advice = h("td", { class: "long", "data-label": "What would do:" });
  const row = h("tr", {}, topic, h("td", { class: "share" }, h("div", { class: "use" }, use.element, share)), peak, average, waited, advice);
  row.update = (found) => {
    const [dimension, minute] = busiest(found);
    use.update(found.used, percent(found.used));
    setText(share, percent(found.used));
    const unit = DIMENSIONS[dimension]?.unit;
    setText(peak, minute ? `${withUnit(minute.peakSecond, unit)} of ${withUnit(found.limits[dimension], unit)}` : "–");
    setText(average, minute ? withUnit(minute.averagePerSecond, unit) : "–");
    setText(waited, minute?.throttledSeconds ? `in ${counted(minute.throttledSeconds, "second")} of ${minute.seconds}` : "never");
    setText(advice, found.advisedPartitions ? `${counted(found.advisedPartitions, "partition")}, now ${found.partitions}` : "–");
    advice.title = found.advice;
  };
  return row;
}

/** The dimension whose busiest second used most of its limit, with its minute. */
function busiest(found) {
  const part = ([dimension, minute]) => (found.limits[dimension] > 0 ? minute.peakSecond / found.limits[dimension] : 1);
  return Object.entries(found.minutes).sort((one, other) => part(other) - part(one))[0] ?? [null, null];
}
