// Two models side by side: what they answer to one taste, what moved, and how often they agree.

import { get, post } from "./api.js";
import { html, part, put, svg } from "./dom.js";
import { tastePanel } from "./panel.js";
import { problemBox } from "./recommend.js";
import { address, change, remember, session } from "./session.js";
import { amount, called, count, counted, percent, userName } from "./text.js";
import { questionOf } from "./taste.js";

const ROW = 40; // the height of a line of a list, in pixels; the style sheet has the same
const SAMPLE = 100;

/** Show the view; what is returned shows the taste anew. */
export function show(root, _, signal) {
  const panel = tastePanel(signal);
  const lists = html("section", { class: "results", "aria-label": "Two lists", "aria-busy": "true" });
  const agreement = html("section", { class: "part", "aria-label": "Agreement" });
  root.append(html("h1", { class: "unseen" }, "Two models"), html("div", { class: "split" }, panel.root, html("div", {}, lists, agreement)));
  let asked = new AbortController();
  signal.addEventListener("abort", () => asked.abort());
  let models = null;
  const ask = async () => {
    asked.abort();
    asked = new AbortController();
    const mine = asked.signal;
    lists.setAttribute("aria-busy", "true");
    try {
      models ??= await get("compare", undefined, signal);
      const told = await post("compare", questionOf(session.taste), mine);
      if (!mine.aborted) draw(lists, told, models);
    } catch (error) {
      if (error.name !== "AbortError") put(lists, problemBox(error, ask));
    }
    lists.setAttribute("aria-busy", "false");
  };
  ask().then(() => agree(agreement, signal));
  return () => { panel.update(); ask(); };
}

function title(facts) {
  return [html("h2", {}, facts.name), html("p", { class: "small" }, facts.file ?? facts.model)];
}

function draw(root, told, models) {
  const here = told.here.items;
  const other = told.other.items;
  remember([...here, ...other]);
  const placeOf = (items) => new Map(items.map((one, place) => [String(one.item), place]));
  const [left, right] = [placeOf(here), placeOf(other)];
  const both = here.filter((one) => right.has(String(one.item))).length;
  const n = Math.max(here.length, other.length);
  put(root,
    html("p", { class: "lede" }, n ? `${both} of ${n} in both lists.` : "Both lists are empty."),
    html("div", { class: "pair" },
      html("div", {}, title(models.here), list(here, right, "left")),
      lines(left, right, n),
      html("div", {}, title(models.other), list(other, left, "right"))));
}

function list(items, elsewhere, side) {
  return html("ol", { class: `side ${side}` }, items.map((one, place) => {
    const there = elsewhere.get(String(one.item));
    const note = there === undefined ? "only here" : there === place ? "" : `${there > place ? "▼" : "▲"} ${Math.abs(there - place)}`;
    return html("li", { class: there === undefined ? "alone" : null },
      html("span", { class: "place" }, String(place + 1)), html("a", { href: address("item", one.item), title: called(one) }, called(one)),
      html("small", { "aria-label": note && there !== undefined ? `place ${there + 1} in the other list` : null, role: note && there !== undefined ? "img" : null }, note));
  }));
}

/** Lines from the places of one list to those of the other. */
function lines(left, right, n) {
  const y = (place) => place * ROW + ROW / 2;
  const paths = [...left].filter(([id]) => right.has(id)).map(([id, place]) => {
    const [a, b] = [y(place), y(right.get(id))];
    return svg("path", { class: a === b ? "same" : "moved", d: `M0 ${a}C50 ${a} 50 ${b} 100 ${b}` });
  });
  return svg("svg", { class: "slopes", viewBox: `0 0 100 ${Math.max(1, n) * ROW}`, preserveAspectRatio: "none", height: n * ROW, "aria-hidden": "true" }, paths);
}

async function agree(root, signal) {
  put(root, html("h2", {}, "How often they agree"), html("p", { class: "small" }, `Asking both about ${SAMPLE} users …`));
  try {
    const told = await get("agreement", { users: SAMPLE, n: 10 }, signal);
    put(root, ...drawAgreement(told));
  } catch (error) {
    if (error.name !== "AbortError") put(root, problemBox(error, () => agree(root, signal)));
  }
}

function drawAgreement(told) {
  if (!told.users) return [html("h2", {}, "How often they agree"), html("p", { class: "empty" }, "The two models have no users in common.")];
  const most = Math.max(...told.overlaps);
  const bars = told.overlaps.map((number, items) => html("div", { class: "column" },
    html("span", { class: "small" }, number ? count(number) : ""), html("i", { style: { height: `${(100 * number) / most}px` } }), html("b", {}, String(items))));
  const least = told.least.map((one) => html("button", {
    type: "button", class: "chip user", on: { click: () => { change({ user: String(one.user), items: [], out: [] }); window.scrollTo({ top: 0 }); } },
  }, `${userName(one.user)}: ${percent(one.overlap)}`));
  return [html("h2", {}, "How often they agree"),
    html("dl", { class: "big" },
      html("div", {}, html("dt", {}, `overlap@${told.n}`), html("dd", {}, percent(told.overlap))),
      html("div", {}, html("dt", {}, "rank correlation"), html("dd", {}, amount(told.rank_correlation))),
      html("div", {}, html("dt", {}, "users asked about"), html("dd", {}, count(told.users)))),
    html("figure", {}, html("div", { class: "histogram", role: "img", "aria-label": `Users by the number of items in both lists: ${told.overlaps.map((number, items) => `${items}: ${number}`).join(", ")}` }, bars),
      html("figcaption", {}, `Users by how many of ${counted(told.n, "item")} are in both lists. Rank correlation is Spearman's, of the scores of items that both know.`)),
    part("They agree least on", html("div", { class: "chips" }, least))];
}
