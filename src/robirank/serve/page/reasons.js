// Reasons of a score as bars that add up to it: a short bar in a list, and a ladder with every step.

import { html, svg } from "./dom.js";
import { amount } from "./text.js";

const COLOURS = 7;
const WORDS = {
  "other items": "Other items", "other features": "Other features", rest: "The rest of the row", interactions: "Who took it",
  popularity: "Popularity, taken off",
};

/** The reasons of one side, which add up to the score. */
export function ofSide(reasons, side) {
  return reasons.filter((reason) => reason.side === side);
}

/** What a reason is called. */
export function reasonName(reason) {
  if (reason.kind === "item") return reason.name ?? String(reason.id);
  return reason.kind === "feature" ? reason.name : WORDS[reason.kind] ?? reason.kind;
}

function sourceOf(reason) {
  if (reason.kind === "item") return `item ${reason.id}`;
  return reason.kind === "feature" ? `feature ${reason.name}` : null;
}

/** The sources that matter most in some lists of reasons, each with a colour of its own. */
export function sourcesOf(lists) {
  const sums = new Map();
  for (const reason of lists.flat()) {
    const source = sourceOf(reason);
    if (!source) continue;
    const known = sums.get(source) ?? { source, name: reasonName(reason), id: reason.id, kind: reason.kind, size: 0 };
    known.size += Math.abs(reason.effect);
    sums.set(source, known);
  }
  const order = [...sums.values()].sort((a, b) => b.size - a.size).slice(0, COLOURS);
  return new Map(order.map((one, place) => [one.source, { ...one, place }]));
}

function colourOf(reason, sources) {
  const place = sources.get(sourceOf(reason))?.place;
  return place === undefined ? "cx" : `c${place}`;
}

/** The reasons in the order of their colours, so that equal sources stand at equal places. */
function inOrder(reasons, sources) {
  const key = (reason) => sources.get(sourceOf(reason))?.place ?? (sourceOf(reason) ? COLOURS : COLOURS + 1);
  return [...reasons].sort((a, b) => key(a) - key(b));
}

/** The largest sum of what speaks for one item: the length of the longest bar. */
export function longest(lists) {
  return Math.max(1e-9, ...lists.map((reasons) => sum(reasons.filter((r) => r.effect > 0))));
}

function sum(reasons) {
  return reasons.reduce((total, reason) => total + reason.effect, 0);
}

/**
 * One bar: above, what speaks for the item, from the left; below, what speaks against it, back from
 * there. Where the lower lane ends is the score, marked by a stroke.
 */
export function reasonBar(reasons, sources, most) {
  const width = 1000;
  const scale = (width - 6) / most;
  const parts = [];
  let at = 0;
  const ordered = inOrder(reasons, sources);
  for (const reason of ordered.filter((one) => one.effect > 0)) {
    parts.push(segment(reason, sources, at * scale, reason.effect * scale, 0, 16));
    at += reason.effect;
  }
  for (const reason of ordered.filter((one) => one.effect < 0)) {
    at += reason.effect;
    parts.push(segment(reason, sources, at * scale, -reason.effect * scale, 17, 5));
  }
  const end = Math.max(0, at * scale);
  parts.push(svg("rect", { class: "mark", x: end, y: 0, width: 5, height: 22 }));
  return svg("svg", { class: "bar", viewBox: `0 0 ${width} 22`, preserveAspectRatio: "none", "aria-hidden": "true" }, parts);
}

function segment(reason, sources, x, width, y, height) {
  const [left, right] = [Math.max(0, x), Math.max(0, x + width)];
  return svg("rect", { class: colourOf(reason, sources), x: left, y, width: right - left, height },
    svg("title", {}, `${reasonName(reason)} ${amount(reason.effect, { sign: true })}`));
}

/** A bar of one length, for lists without reasons. */
export function plainBar(share) {
  return svg("svg", { class: "bar", viewBox: "0 0 1000 22", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "cx", x: 0, y: 3, width: Math.max(0, Math.min(1, share)) * 1000, height: 16 }));
}

/** Which colours stand for what. */
export function legend(sources) {
  return html("ul", { class: "legend", "aria-label": "Colours of the reasons" },
    [...sources.values()].map((one) => html("li", {}, html("i", { class: `swatch c${one.place}` }), one.name)),
    html("li", {}, html("i", { class: "swatch cx" }), "everything else"));
}

/** Every reason as a step of a ladder from 0 to the score. */
export function ladder(reasons, score, sources, caption) {
  let at = 0;
  const steps = inOrder(reasons, sources).map((reason) => {
    const step = { reason, from: at, to: at + reason.effect };
    at = step.to;
    return step;
  });
  const ends = [0, ...steps.map((step) => step.to)];
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const x = (value) => (1000 * (value - low)) / (high - low || 1);
  const rows = steps.map(({ reason, from, to }) => html("tr", {},
    html("th", { scope: "row" }, reasonName(reason)),
    html("td", {}, step(x(from), x(to), colourOf(reason, sources), x(0))),
    html("td", { class: "number" }, amount(Math.abs(reason.effect) < 0.001 * (high - low) ? 0 : reason.effect, { sign: true }))));
  return html("table", { class: "ladder" }, html("caption", {}, caption), html("tbody", {}, rows),
    html("tfoot", {}, html("tr", {}, html("th", { scope: "row" }, "Score"),
      html("td", {}, step(x(0), x(score), "total", x(0))), html("td", { class: "number" }, amount(score)))));
}

function step(from, to, colour, zero) {
  const left = Math.min(from, to);
  return svg("svg", { class: "bar step", viewBox: "0 0 1000 12", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("line", { class: "zero", x1: zero, x2: zero, y1: 0, y2: 12 }),
    svg("rect", { class: to < from ? `${colour} against` : colour, x: left, y: 1, width: Math.max(3, Math.abs(to - from)), height: 10 }));
}
