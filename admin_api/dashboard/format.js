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
  const [step, sign] = STEPS.find(([size]) => value >= size * 10 || (size > 1e3 && value >= size)) ?? [1, ""];
  if (step === 1) return whole.format(value);
  const part = value / step;
  return `${part >= 100 ? Math.round(part) : Number(part.toFixed(1))}${sign}`;
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

/** The clock's time of something that was so long ago. */
export const clock = (ageMillis) =>
  new Date(Date.now() - ageMillis).toLocaleTimeString("en-GB", { hour12: false });

/** "1 group", "2 groups". */
export const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
