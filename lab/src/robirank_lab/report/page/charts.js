// What all charts share: scales, axes, colours, and drawing again when the page changes its width.

const DASHES = ["none", "7 4", "2 4"];
const COLOURS = 7;

/** How a method looks, everywhere on the page. */
function look(method) {
  if (method === data.emphasis) return { colour: "var(--accent)", dash: "none", emphasis: true };
  if (data.levels?.includes(method)) return { colour: "var(--soft)", dash: "6 4", emphasis: false };
  const place = method - (method > data.emphasis ? 1 : 0);
  return {
    colour: `var(--m${place % COLOURS})`,
    dash: DASHES[Math.floor(place / COLOURS) % DASHES.length],
    emphasis: false,
  };
}

function scale([from, to], [start, end]) {
  const factor = to === from ? 0 : (end - start) / (to - from);
  return (value) => start + (value - from) * factor;
}

/** Round numbers that cover a range: steps of 1, 2 or 5. */
function ticks(low, high, most) {
  const rough = (high - low) / Math.max(1, most) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) {
    found.push(Number((i * step).toPrecision(12)));
  }
  return { step, values: found };
}

/** The range of some values with a little air around it. */
function rangeOf(values, air = 0.04) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low > high) return [0, 1];
  const margin = (high - low) * air || 0.05;
  return [low - margin, high + margin];
}

function digitsOf(step) {
  return Math.max(0, Math.min(6, Math.ceil(-Math.log10(step) - 1e-9)));
}

const pencil = document.createElement("canvas").getContext("2d");

/** How wide a text is on a chart. */
function textWidth(text, weight = 400) {
  const size = isNarrow() ? 11 : 12;
  pencil.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pencil.measureText(text).width;
}

function fitText(text, width) {
  if (textWidth(text) <= width) return text;
  let end = text.length - 1;
  while (end > 1 && textWidth(`${text.slice(0, end)}…`) > width) end -= 1;
  return `${text.slice(0, end)}…`;
}

const NARROW = "(max-width: 46rem)";

function isNarrow() {
  return window.matchMedia(NARROW).matches;
}

/** Call draw(width) now and whenever the width of a node changes. */
function responsive(node, draw) {
  let last = 0;
  const redraw = () => {
    const width = Math.round(node.clientWidth);
    if (width > 0 && width !== last) {
      last = width;
      draw(width);
    }
  };
  new ResizeObserver(redraw).observe(node);
  redraw();
  return () => { last = 0; redraw(); };
}

/**
 * Move labels apart, as little as can be.
 *
 * Wanted places w, sorted; at least `gap` between neighbours; all in [low, high]. In terms of
 * z_i = y_i − i·gap the task is isotonic regression, which pooling adjacent violators solves.
 */
function spread(wanted, gap, low, high) {
  const step = wanted.length > 1 ? Math.min(gap, (high - low) / (wanted.length - 1)) : gap;
  const blocks = [];
  wanted.forEach((y, i) => {
    blocks.push({ total: y - i * step, n: 1 });
    while (blocks.length > 1) {
      const [before, last] = blocks.slice(-2);
      if (before.total / before.n <= last.total / last.n) break;
      blocks.splice(-2, 2, { total: before.total + last.total, n: before.n + last.n });
    }
  });
  const top = high - (wanted.length - 1) * step;
  return blocks
    .flatMap(({ total, n }) => Array(n).fill(Math.max(low, Math.min(top, total / n))))
    .map((z, i) => z + i * step);
}

function path(points) {
  if (points.length === 1) return `M${points[0].join(" ")}h0`;
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

/** A short piece of a method's line, for chips and legends. */
function sample(method) {
  const { colour, dash, emphasis } = look(method);
  return svg("svg", { viewBox: "0 0 18 8", "aria-hidden": "true", focusable: "false" },
    svg("line", {
      x1: 0, x2: 18, y1: 4, y2: 4, stroke: colour, "stroke-width": emphasis ? 3.5 : 2.2,
      "stroke-dasharray": dash,
    }));
}

function chart(width, height, label, attributes = {}) {
  return svg("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label,
    ...attributes,
  });
}

/** Horizontal lines with their numbers at the left. */
function gridLines({ values, step }, y, left, right, text = (v) => decimal(v, digitsOf(step))) {
  return values.flatMap((value) => [
    svg("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }),
    svg("text", { x: left - 8, y: y(value), dy: "0.35em", "text-anchor": "end" }, text(value)),
  ]);
}

/**
 * Rows with a name each over one axis, to draw into: { node, x(value), y(row) }.
 *
 * Names stand at the left, on a phone above their rows; `ends` are texts at the right.
 */
function rowChart(width, label, { names, range, marks, markText, emphasis = [], ends = [] }) {
  const narrow = isNarrow();
  const height = narrow ? 36 : 24;
  const left = narrow ? 8 : Math.min(Math.max(...names.map((name) => textWidth(name, 600))), width * 0.45) + 14;
  const right = width - (narrow ? 14 : 14 + Math.max(0, ...ends.map((text) => textWidth(text) + 6)));
  const bottom = 4 + names.length * height;
  const x = scale(range, [left + 8, right]);
  const y = (n) => 4 + (n + (narrow ? 0.72 : 0.5)) * height;
  const node = chart(width, bottom + 26, label);
  node.append(...marks.flatMap((mark) => [
    svg("line", { class: "grid", x1: x(mark), x2: x(mark), y1: 4, y2: bottom }),
    svg("text", { x: x(mark), y: bottom + 18, "text-anchor": "middle" }, markText(mark))]));
  names.forEach((name, n) => {
    const at = narrow ? { x: 0, y: y(n) - 13 } : { x: left - 12, y: y(n), dy: "0.35em", "text-anchor": "end" };
    node.append(svg("text", { class: `name${emphasis[n] ? " emphasis" : ""}`, ...at }, fitText(name, narrow ? width * 0.7 : left - 14)));
    if (ends[n]) node.append(svg("text", { x: width, y: at.y, dy: at.dy, "text-anchor": "end" }, ends[n]));
  });
  return { node, x, y };
}

/** Where the pointer is, in the units of a chart. */
function pointIn(node, event) {
  const box = node.getBoundingClientRect();
  const zoom = node.viewBox.baseVal.width / box.width;
  return [(event.clientX - box.left) * zoom, (event.clientY - box.top) * zoom];
}

/** Where a point of a chart is in the window. */
function pointOut(node, x, y) {
  const box = node.getBoundingClientRect();
  const zoom = box.width / node.viewBox.baseVal.width;
  return [box.left + x * zoom, box.top + y * zoom];
}
