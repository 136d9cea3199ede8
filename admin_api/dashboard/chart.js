// A group over time: what each broker admitted, stacked, under the limit, with marks for what happened.
// The chart library is large, so it is loaded when the first chart is shown.

import { clock, rate, span } from "./format.js";

const LIBRARY = "/dashboard/plotly.min.js";
// An element of this name tells the library that the styles of its maps are there already. No page has a map,
// and the policy refuses what is written into the page, with a complaint in the console.
const MAP_STYLES = "9f215cf04c5486422605d13261cb87401f4e7763b6296af81e98efbc0130da53";
const NAMED = 8;
const MARKED = new Set(["joined", "left", "created", "changed", "state", "trouble"]);
const MARKS = 24;

let loading;

function library() {
  loading ??= new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = LIBRARY;
    script.onload = () => done(globalThis.Plotly);
    script.onerror = () => {
      loading = undefined;
      fail(new Error("The charts cannot be loaded; the table below has the figures."));
    };
    document.head.append(Object.assign(document.createElement("meta"), { id: MAP_STYLES }), script);
  });
  return loading;
}

/** The samples of one group and dimension as they come in, bounded to what the sidecar keeps. */
export class Samples {
  constructor() {
    this.times = [];
    this.limit = [];
    this.brokers = new Map();
    this.last = -1;
    this.marks = [];
  }

  /** Take the samples after `last`; when some are missing in between, begin anew. */
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

/** Draw samples into an element, in the colours of the page. */
export async function drawChart(element, samples, unit, signal) {
  const plotly = await library();
  if (signal.aborted || !samples.times.length) return;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const times = samples.times.map((time) => new Date(time));
  const traces = samples.layers().map((layer) => ({
    x: times,
    y: layer.values.map((value) => value ?? 0),
    name: layer.name,
    stackgroup: "admitted",
    mode: "lines",
    line: { width: 0.8, color: color(layer.color) },
    fillcolor: faded(color(layer.color), 0.72),
    hovertemplate: "%{y:,.0f}",
  }));
  traces.push({
    x: times,
    y: samples.limit,
    name: "limit",
    mode: "lines",
    line: { width: 2, color: color("--ink"), dash: "dash", shape: "hv" },
    hovertemplate: "%{y:,.0f}",
  });
  const marks = samples.marks.filter((mark) => MARKED.has(mark.kind)).slice(-MARKS);
  const top = Math.max(...samples.limit, 1);
  const layout = {
    margin: { l: 56, r: 12, t: 26, b: 30 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: style.fontFamily, size: 12, color: color("--soft") },
    showlegend: false,
    hovermode: "x unified",
    hoverlabel: {
      bgcolor: color("--surface"),
      bordercolor: color("--strong"),
      font: { color: color("--ink") },
    },
    dragmode: false,
    xaxis: {
      gridcolor: color("--line"),
      linecolor: color("--strong"),
      tickformat: "%H:%M:%S",
      hoverformat: "%H:%M:%S",
      fixedrange: true,
      nticks: Math.max(3, Math.floor(element.clientWidth / 110)),
    },
    yaxis: {
      gridcolor: color("--line"),
      zerolinecolor: color("--strong"),
      rangemode: "tozero",
      fixedrange: true,
      tickformat: "~s",
      range: [0, 1.08 * Math.max(top, peak(samples))],
      title: { text: unit, standoff: 6 },
    },
    shapes: marks.map((mark) => ({
      type: "line",
      x0: new Date(mark.at),
      x1: new Date(mark.at),
      yref: "paper",
      y0: 0,
      y1: 1,
      line: { width: 1.2, dash: "dot", color: color(tint(mark.kind)) },
    })),
    annotations: marks.map((mark) => ({
      x: new Date(mark.at),
      yref: "paper",
      y: 1,
      yanchor: "bottom",
      showarrow: false,
      text: sign(mark.kind),
      hovertext: escaped(`${clock(Date.now() - mark.at)} ${mark.text}`),
      font: { size: 12, color: color(tint(mark.kind)) },
    })),
  };
  const options = { displayModeBar: false, responsive: true, scrollZoom: false };
  await plotly.react(element, traces, layout, options);
}

function peak(samples) {
  const sums = samples.times.map((_, index) =>
    [...samples.brokers.values()].reduce((sum, values) => sum + (values[index] ?? 0), 0));
  return Math.max(...sums, 1);
}

const sign = (kind) => ({ joined: "▲", created: "▲", left: "▼", changed: "◆" })[kind] ?? "●";
const tint = (kind) =>
  ({ joined: "--good", created: "--good", left: "--bad", changed: "--accent", trouble: "--bad" })[kind] ?? "--warn";

function faded(hex, share) {
  const part = (at) => Number.parseInt(hex.slice(at, at + 2), 16);
  return `rgba(${part(1)},${part(3)},${part(5)},${share})`;
}

// The library reads a few tags in its texts; a name is no tag.
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
