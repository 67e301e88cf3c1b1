// Numbers and names as they are read.

const MINUS = "−";
const NONE = "–";

/** A number between 0 and 1 as tables have it: .4451. */
function decimal(value, digits = 4) {
  if (value === null || value === undefined) return NONE;
  if (value === 0) return "0";
  const text = Math.abs(value).toFixed(digits).replace(/^0\./, ".");
  return Number(text) && value < 0 ? MINUS + text : text;
}

/** The same with its sign, also when it is positive. */
function signed(value, digits = 3) {
  const text = decimal(value, digits);
  return value > 0 && Number(text) ? `+${text}` : text;
}

function interval(low, high, digits = 3) {
  return `[${decimal(low, digits)}, ${decimal(high, digits)}]`;
}

function pValue(p) {
  if (p === null || p === undefined) return NONE;
  if (p < 0.001) return "< .001";
  return p > 0.9995 ? "1" : decimal(p, 3);
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 0.001) return "<1 ms";
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(2))} ms`;
  if (seconds < 60) return `${Number(seconds.toPrecision(2))} s`;
  if (seconds < 3600) return `${Number((seconds / 60).toPrecision(2))} min`;
  return `${Number((seconds / 3600).toPrecision(2))} h`;
}

/** Seconds as table.md has them. */
function inSeconds(seconds) {
  return seconds === null || seconds === undefined ? NONE : seconds.toFixed(1);
}

/** Whether two values are read as the same number; both are then the best, or none is. */
function looksLike(value, other) {
  return value !== undefined && value !== null && decimal(value) === decimal(other);
}

/** Any number, short: 0.001, 1e-5, 300. */
function short(value) {
  if (typeof value !== "number") return typeof value === "string" ? value : JSON.stringify(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e6) {
    return value.toExponential().replace(/(\.\d{3})\d+/, "$1").replace("e+", "e");
  }
  return String(Number(value.toPrecision(4)));
}

function setting(params) {
  const parts = Object.entries(params).map(([name, value]) => `${name} = ${short(value)}`);
  return parts.join(", ") || NONE;
}

const METRIC_NAMES = {
  ndcg: "NDCG", mean_ndcg: "MeanNDCG", map: "MAP",
  precision: "Precision", recall: "Recall", hit_rate: "Hit rate",
};

function metricName(metric) {
  const [name, k] = metric.split("@");
  const [first, last] = (k ?? "").split("-");
  if (last) return `mean of ${METRIC_NAMES[name] ?? name}@${first} to @${last}`;
  return (METRIC_NAMES[name] ?? name) + (k ? `@${k}` : "");
}

/** The mean of a metric over queries; MeanNDCG and MAP say themselves that they are means. */
function meanName(metric) {
  return metric === "mean_ndcg" || metric === "map" ? metricName(metric) : `Mean ${metricName(metric)}`;
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

function count(n, one, many = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}
