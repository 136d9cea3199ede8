// Numbers, times and names as people read them; -1 and null are "not limited" and "not known".

const whole = new Intl.NumberFormat("en");
const STEPS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

export const DIMENSIONS = {
  publishRateInMsgs: { name: "publish messages", unit: "msg/s" },
  publishRateInBytes: { name: "publish bytes", unit: "B/s" },
  dispatchRateInMsgs: { name: "dispatch messages", unit: "msg/s" },
  dispatchRateInBytes: { name: "dispatch bytes", unit: "B/s" },
};

/** A number in full: 12,345. */
export const number = (value) => (value == null ? "–" : whole.format(value));

/** A rate in a few characters: 3,000, 12.5k, 1.2G. */
export function rate(value) {
  if (value == null) return "–";
  if (value === -1) return "unlimited";
  // A value that would be written as 1000 of a sign has the next one: 1M, and not 1000k.
  const [step, sign] = STEPS.find(([size]) => value >= size * 10 || (size > 1e3 && value >= size * 0.9995)) ?? [1, ""];
  if (step === 1) return whole.format(value);
  const part = value / step;
  return `${part >= 100 ? Math.round(part) : Number(part.toFixed(1))}${sign}`;
}

/** A rate in full: 12,345, or unlimited. */
export const exact = (value) => (value === -1 ? "unlimited" : number(value));

/** A rate or an amount with its unit: 3,000 msg/s, 12.5k msg/s, 1.2 MB/s. */
export function withUnit(value, unit) {
  if (value == null || value === -1) return rate(value);
  const text = rate(value);
  const sign = /[a-zA-Z]$/.exec(text)?.[0] ?? "";
  // A sign stands before the unit of bytes, and behind any other number.
  return unit.startsWith("B") ? `${sign ? text.slice(0, -1) : text} ${sign}${unit}` : `${text} ${unit}`;
}

/** A part of one: 61 %. */
export function percent(share) {
  if (share == null || !Number.isFinite(share)) return "–";
  const value = share * 100;
  return `${value !== 0 && value < 9.95 ? value.toFixed(1) : Math.round(value)} %`;
}

/** A time span: 0.4 s, 12 s, 3 min, 2 h. */
export function span(millis) {
  if (millis == null) return "–";
  if (millis < 9_950) return `${(millis / 1000).toFixed(1)} s`;
  if (millis < 119_500) return `${Math.round(millis / 1000)} s`;
  if (millis < 7_170_000) return `${Math.round(millis / 60_000)} min`;
  if (millis < 172_800_000) return `${Math.round(millis / 3_600_000)} h`;
  return `${Math.round(millis / 86_400_000)} days`;
}

const HALF_A_DAY_MS = 43_200_000;

/** The clock's time of something that happened before this time; with its day, if that is not plain. */
export function clock(ageMillis) {
  const at = new Date(Date.now() - ageMillis);
  const time = at.toLocaleTimeString("en-GB", { hour12: false });
  return ageMillis < HALF_A_DAY_MS ? time : `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}

/** "1 group", "2 groups". */
export const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
