// A group over time: what each broker admitted, stacked, under the limit, with marks for what happened.

import { fill, h, s } from "./dom.js";
import { clock, rate, span } from "./format.js";

const NAMED = 8;
const MARKED = new Set(["joined", "left", "created", "changed", "state", "degradation"]);
const MARKS = 24;
const EDGE = { left: 56, right: 12, top: 26, bottom: 30 };

/** The samples of one group and dimension as they come in, bounded to what the sidecar keeps. */
export class Samples {
  constructor() {
    this.times = [];
    this.limit = [];
    this.brokers = new Map();
    this.last = -1;
    this.marks = [];
  }

  /** Take the samples after `last`; when some are missing in between, or it begins anew, so does this. */
  take(answer) {
    if (answer.first !== this.last + 1) Object.assign(this, new Samples());
    const now = Date.now();
    const length = this.times.length;
    for (const [name, admitted] of Object.entries(answer.admitted)) {
      const known = this.brokers.get(name) ?? new Array(length).fill(null);
      this.brokers.set(name, known.concat(admitted));
    }
    this.times.push(...answer.agesMillis.map((age) => now - age));
    this.limit.push(...answer.limit);
    for (const [name, known] of this.brokers) {
      while (known.length < this.times.length) known.push(null);
      if (known.every((value) => value === null)) this.brokers.delete(name);
    }
    this.last = answer.first + answer.agesMillis.length - 1;
    if (answer.marks.length) {
      const numbers = new Set(answer.marks.map((mark) => mark.number));
      this.marks = this.marks
        .filter((mark) => !numbers.has(mark.number))
        .concat(answer.marks.map((mark) => ({ ...mark, at: now - mark.ageMillis })));
    }
    this.#forget();
  }

  /** Milliseconds since the newest sample; 0 before the first. */
  age() {
    return this.times.length ? Date.now() - this.times.at(-1) : 0;
  }

  #forget() {
    const extra = this.times.length - 375;
    if (extra > 0) {
      this.times.splice(0, extra);
      this.limit.splice(0, extra);
      for (const known of this.brokers.values()) known.splice(0, extra);
    }
    this.marks = this.marks.filter((mark) => mark.at >= this.times[0]);
  }

  /** At most NAMED brokers by name, the largest of the last minute first; the others as one. */
  layers() {
    const weight = (values) => values.slice(-60).reduce((sum, value) => sum + (value ?? 0), 0);
    const ordered = [...this.brokers].sort((a, b) => weight(b[1]) - weight(a[1]) || (a[0] < b[0] ? -1 : 1));
    const named = ordered.slice(0, ordered.length > NAMED + 1 ? NAMED : NAMED + 1);
    const rest = ordered.slice(named.length);
    // In the order of their names, so that a colour stays with its broker while shares change.
    const layers = named.sort((a, b) => (a[0] < b[0] ? -1 : 1)).map(([name, values]) => ({ name, values }));
    if (rest.length) {
      const sums = this.times.map((_, index) => rest.reduce((sum, [, values]) => sum + (values[index] ?? 0), 0));
      layers.push({ name: `${rest.length} others`, values: sums });
    }
    return layers.map((layer, index) => ({ ...layer, color: `--s${index % 9}` }));
  }

  /** The same in words. */
  text(unit) {
    if (!this.times.length) return "No samples yet.";
    const last = this.times.length - 1;
    const parts = this.layers().map((layer) => `${layer.name} ${rate(layer.values[last] ?? 0)}`);
    return `The last ${span(this.times[last] - this.times[0])}. Limit ${rate(this.limit[last])} ${unit}; admitted now: ${parts.join(", ") || "nothing"}.`;
  }
}

/**
 * A chart of samples, drawn into an element of its own as SVG.
 *
 * Colours are the page's variables, so a change of scheme needs no new drawing. A chart library was
 * slower by five seconds on a busy machine, since a browser compiles all of it first.
 */
export class Chart {
  #samples = new Samples();
  #unit = "";
  #hint = h("div", { class: "hint" });
  #guide = null;
  #scale = null;

  constructor() {
    this.element = h("div", { class: "chart", "aria-hidden": "true" });
    this.#hint.hidden = true;
    this.element.addEventListener("pointermove", (event) => this.#point(event));
    this.element.addEventListener("pointerleave", () => this.#leave());
    new ResizeObserver(() => this.#paint()).observe(this.element);
  }

  draw(samples, unit) {
    this.#samples = samples;
    this.#unit = unit;
    this.#paint();
  }

  #paint() {
    const { times, limit } = this.#samples;
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!times.length || width <= EDGE.left + EDGE.right) return;
    const layers = this.#samples.layers();
    const tops = stacked(layers, times.length);
    const top = 1.08 * Math.max(1, ...limit, ...(tops.at(-1) ?? []));
    const duration = Math.max(1, times.at(-1) - times[0]);
    const x = (time) => tenth(EDGE.left + ((time - times[0]) / duration) * (width - EDGE.left - EDGE.right));
    const y = (value) => tenth(height - EDGE.bottom - (value / top) * (height - EDGE.top - EDGE.bottom));
    const right = width - EDGE.right;
    this.#scale = { x, layers };
    this.#guide = s("line", { class: "guide", y1: EDGE.top, y2: height - EDGE.bottom });
    this.#guide.style.display = "none";
    const drawing = s(
      "svg",
      { width, height },
      valueTicks(top, height).map((value) => [
        s("line", { class: "grid", x1: EDGE.left, x2: right, y1: y(value), y2: y(value) }),
        s("text", { class: "value", x: EDGE.left - 8, y: y(value) + 4 }, rate(value)),
      ]).flat(),
      timeTicks(times, width).map((time) =>
        s("text", { class: "time", x: x(time), y: height - EDGE.bottom + 18 }, clock(Date.now() - time))),
      layers.map((layer, index) => {
        const bottoms = tops[index - 1] ?? times.map(() => 0);
        const area = s("path", { class: "area", d: outline(times.map(x), tops[index].map(y), bottoms.map(y)) });
        area.style.fill = area.style.stroke = `var(${layer.color})`;
        return area;
      }),
      s("path", { class: "limit", d: steps(times.map(x), limit, y) }),
      this.#marks().map((mark) => {
        const at = s("g", { class: "mark" },
          s("title", {}, `${clock(Date.now() - mark.at)} ${mark.text}`),
          s("line", { x1: x(mark.at), x2: x(mark.at), y1: EDGE.top, y2: height - EDGE.bottom }),
          s("text", { x: x(mark.at), y: EDGE.top - 6 }, sign(mark.kind)));
        at.style.setProperty("--mark", `var(${tint(mark.kind)})`);
        return at;
      }),
      s("text", { class: "value", x: EDGE.left - 8, y: EDGE.top - 10 }, this.#unit),
      this.#guide,
    );
    fill(this.element, drawing, this.#hint);
  }

  #marks() {
    return this.#samples.marks.filter((mark) => MARKED.has(mark.kind)).slice(-MARKS);
  }

  #point(event) {
    if (this.#scale === null) return;
    const { times, limit } = this.#samples;
    const { x, layers } = this.#scale;
    const at = event.clientX - this.element.getBoundingClientRect().left;
    const index = times.reduce((best, time, each) => (Math.abs(x(time) - at) < Math.abs(x(times[best]) - at) ? each : best), 0);
    this.#guide.setAttribute("x1", x(times[index]));
    this.#guide.setAttribute("x2", x(times[index]));
    this.#guide.style.display = "";
    fill(
      this.#hint,
      h("strong", {}, clock(Date.now() - times[index])),
      layers.map((layer) => h("span", {}, `${layer.name}: ${rate(layer.values[index] ?? 0)}`)),
      h("span", {}, `limit: ${rate(limit[index])}`),
    );
    this.#hint.hidden = false;
    const beside = x(times[index]) + 12;
    const fits = beside + this.#hint.offsetWidth < this.element.clientWidth;
    this.#hint.style.left = `${fits ? beside : x(times[index]) - 12 - this.#hint.offsetWidth}px`;
  }

  #leave() {
    this.#hint.hidden = true;
    if (this.#guide) this.#guide.style.display = "none";
  }
}

const tenth = (pixels) => Math.round(pixels * 10) / 10;

/** The upper edge of each layer, on those below it. */
function stacked(layers, length) {
  let below = new Array(length).fill(0);
  return layers.map(({ values }) => (below = below.map((sum, index) => sum + (values[index] ?? 0))));
}

/** A closed path between two lines over the same places. */
function outline(places, tops, bottoms) {
  const forth = places.map((place, index) => `${place},${tops[index]}`);
  const back = places.map((place, index) => `${place},${bottoms[index]}`).reverse();
  return `M${forth.join("L")}L${back.join("L")}Z`;
}

/** A line that holds each value until the next; -1, not limited, is a gap. */
function steps(places, values, y) {
  return values.map((value, index) => {
    if (value < 0) return "";
    const start = index > 0 && values[index - 1] >= 0 ? `H${places[index]}V${y(value)}` : `M${places[index]},${y(value)}`;
    return index === values.length - 1 ? start : `${start}H${places[index + 1]}`;
  }).join("");
}

/** Round values from zero to the top, about one for 45 pixels. */
function valueTicks(top, height) {
  const least = (top * 45) / height;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least);
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, index) => Number((index * step).toPrecision(6)));
}

/** Round times between the first and the last, at least 110 pixels apart. */
function timeTicks(times, width) {
  const duration = times.at(-1) - times[0];
  const least = (duration * 110) / width;
  const step = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600].map((each) => each * 1000).find((each) => each >= least) ?? duration;
  const found = [];
  for (let time = Math.ceil(times[0] / step) * step; time <= times.at(-1); time += step) found.push(time);
  return found;
}

const sign = (kind) => ({ joined: "▲", created: "▲", left: "▼", changed: "◆" })[kind] ?? "●";
const tint = (kind) =>
  ({ joined: "--good", created: "--good", left: "--bad", changed: "--accent", degradation: "--bad" })[kind] ?? "--warn";
