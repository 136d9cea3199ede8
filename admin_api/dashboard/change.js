// The form that shows what a change would do before it is made.

import { ask, Problem, read } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { counted, DIMENSIONS, rate, withUnit } from "./format.js";

const CHOICES = { law: "Law", weights: "Weights", overshootPolicy: "Overshoot policy", partitionPolicy: "When cut off from ZooKeeper", enforcement: "Enforcement" };
const WHOLE = ["numeric", "-1|[0-9]+", "a whole number, or nothing for unlimited"];
const DECIMAL = ["decimal", "-1|[0-9]+([.][0-9]{1,3})?", "a number with at most three decimals, or nothing for unlimited"];
const SHOWN = 12;
const AGAIN_MS = 2_000;

/** The form of a group; `changed` is called when a change was made. */
export function changeForm(page, name, changed) {
  const fields = new Map();
  const outcome = h("div", { class: "outcome wide", "aria-live": "polite" });
  const look = h("button", { class: "button", disabled: true }, "Preview");
  const apply = h("button", { class: "button primary", type: "button", disabled: true, onclick: () => send() }, "Apply");
  const form = h("form", { class: "change", onsubmit: (event) => { event.preventDefault(); preview(); } }, outcome);
  let definition = null;
  let tag = null;
  let seen = null;

  /** Show the fields once they hold what the group is: a default shown before that would be a lie. */
  async function load() {
    const [choices] = await Promise.all([read("/quota/v1/choices", page.signal), learn()]);
    for (const key of Object.keys(DIMENSIONS)) {
      const [inputmode, pattern, title] = key.endsWith("Msgs") ? DECIMAL : WHOLE;
      const input = h("input", { name: key, inputmode, pattern, title, placeholder: "unlimited", oninput: touched, autocomplete: "off" });
      fields.set(key, input);
    }
    for (const key of Object.keys(CHOICES)) {
      fields.set(key, h("select", { name: key, onchange: touched }, choices[key].map((each) => h("option", {}, each))));
    }
    show();
    fill(
      form,
      [...fields].map(([key, field]) => h("label", {}, label(key), field)),
      h("div", { class: "row wide" }, look, apply),
      outcome,
    );
  }

  async function learn() {
    const answer = await ask(`/quota/v1/groups/${encodeURIComponent(name)}`, { signal: page.signal });
    tag = answer.headers.get("ETag");
    definition = await answer.json();
  }

  function show() {
    for (const [key, field] of fields) field.value = definition[key] === -1 ? "" : definition[key];
    touched();
  }

  async function reset() {
    await learn();
    show();
  }

  function patch() {
    const found = {};
    for (const [key, field] of fields) {
      const text = field.value.trim();
      const value = key in DIMENSIONS ? (text === "" ? -1 : Number(text)) : text;
      if (value !== definition[key]) found[key] = value;
    }
    return found;
  }

  function touched() {
    const asked = JSON.stringify(patch());
    look.disabled = asked === "{}";
    apply.disabled = asked !== seen || asked === "{}";
    if (asked !== seen) fill(outcome);
  }

  async function preview() {
    const asked = patch();
    if (!Object.keys(asked).length) return;
    try {
      const answer = await ask(`/quota/v1/preview/${encodeURIComponent(name)}`, { method: "POST", body: asked, signal: page.signal });
      seen = JSON.stringify(asked);
      fill(outcome, (await answer.json()).map(effect));
      apply.disabled = false;
    } catch (error) {
      say(error);
    }
  }

  async function send() {
    apply.disabled = true;
    try {
      const answer = await ask(`/admin/v2/resourcegroups/${encodeURIComponent(name)}`, { method: "PUT", body: patch(), condition: tag, signal: page.signal });
      seen = null;
      await reset();
      const operation = answer.headers.get("Pulsar-Quota-Operation");
      fill(outcome, h("p", {}, operation ? `Accepted as operation ${operation}; see below how it settles.` : "Nothing has changed: it is so already."));
      changed();
    } catch (error) {
      if (error instanceof Problem && error.status === 412) {
        await reset();
        say(new Problem(412, "This group was changed meanwhile; the form shows what it is now."));
      } else {
        say(error);
      }
    }
  }

  function say(error) {
    if (error.name !== "AbortError") fill(outcome, h("p", { class: "problem", role: "alert" }, error.message));
  }

  /** Ask again until the group is known: a sidecar that starts, or is cut off for a moment, gives no answer. */
  async function begin() {
    while (!page.signal.aborted) {
      try {
        return await load();
      } catch (error) {
        if (error.name !== "AbortError" && !(error instanceof Problem)) throw error;
        say(error);
      }
      await new Promise((done) => setTimeout(done, AGAIN_MS));
    }
  }

  begin();
  return form;
}

function label(key) {
  if (key in CHOICES) return CHOICES[key];
  const { name, unit } = DIMENSIONS[key];
  return `${name}, ${unit}`;
}

function effect(view) {
  const { name, unit } = DIMENSIONS[view.dimension];
  const moves = view.brokers
    .map((each) => ({ ...each, by: amount(each.then, view.limitThen) - amount(each.now, view.limitNow) }))
    .sort((a, b) => Math.abs(b.by) - Math.abs(a.by));
  const rest = moves.length - SHOWN;
  return h(
    "section",
    {},
    h("h3", {}, `${name}: ${withUnit(view.limitNow, unit)} → ${withUnit(view.limitThen, unit)}`),
    h("p", { class: "minor" }, verdict(view, unit)),
    moves.length === 0 ? null : h(
      "table",
      {},
      h("caption", { class: "sr" }, `What it would do to ${name}`),
      h("thead", {}, h("tr", {}, ["Broker", "Now", "Then", "Change"].map((text, at) => h("th", { scope: "col", class: at ? "number" : null }, text)))),
      h("tbody", {}, moves.slice(0, SHOWN).map((each) => h(
        "tr",
        {},
        h("th", { scope: "row" }, each.broker),
        h("td", { class: "number" }, rate(each.now)),
        h("td", { class: "number" }, rate(each.then)),
        h("td", { class: `number ${each.by > 0 ? "up" : each.by < 0 ? "down" : ""}` }, difference(each)),
      ))),
    ),
    rest > 0 ? h("p", { class: "minor" }, `and ${counted(rest, "broker")} that change less`) : null,
  );
}

const amount = (share, limit) => (limit === -1 || share === -1 ? 0 : share);

function difference({ now, then, by }) {
  if (now === -1 || then === -1) return now === then ? "–" : now === -1 ? "limited" : "lifted";
  return by === 0 ? "–" : `${by > 0 ? "+" : "−"}${rate(Math.abs(by))}`;
}

function verdict(view, unit) {
  if (view.limitThen === -1) return "Everything would pass.";
  if (view.admitted > view.limitThen) return `${withUnit(view.admitted, unit)} pass now, of which ${withUnit(view.admitted - view.limitThen, unit)} would be held.`;
  return `${withUnit(view.admitted, unit)} pass now; that fits.`;
}
