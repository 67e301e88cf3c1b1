// The view of the model: what is served, in figures.

import { get } from "./api.js";
import { html, part, put } from "./dom.js";
import { session } from "./session.js";
import { count, value, when } from "./text.js";

const COUNTS = ["users", "items", "factors"];

/** Show the view. */
export function show(root, _, signal) {
  const page = html("div", {});
  root.append(page);
  draw(page, session.facts);
  get("model", undefined, signal).then((facts) => { session.facts = facts; draw(page, facts); }, () => {});
}

function draw(page, facts) {
  const shape = COUNTS.filter((name) => facts[name] !== undefined);
  const features = facts.features ?? [];
  put(page,
    html("div", { class: "title" }, html("p", { class: "overline" }, facts.file ?? "a model in memory"), html("h1", {}, facts.name)),
    html("dl", { class: "big" }, shape.map((name) => pair(name, count(facts[name]))),
      features.length ? pair("features", count(features.length)) : null,
      facts.trained ? pair("written", when(facts.trained)) : null, pair("loaded", when(facts.loaded)), pair("checksum", facts.model)),
    html("div", { class: "columns" },
      table("Figures", facts.figures), table("Parameters", facts.parameters), table("Columns of the items", facts.columns),
      features.length ? part("Features", html("p", { class: "chips" }, features.slice(0, 200).map((name) => html("span", { class: "chip" }, name)))) : null),
    html("p", { class: "small" }, "For programs: ", html("a", { href: "docs" }, "the routes of this server"), ", ",
      html("a", { href: "metrics" }, "its figures for Prometheus"), "."));
}

function pair(name, text) {
  return html("div", {}, html("dt", {}, name), html("dd", {}, text));
}

function table(title, values) {
  const pairs = Object.entries(values ?? {});
  if (!pairs.length) return null;
  return part(title, html("dl", { class: "facts" }, pairs.map(([name, thing]) => pair(name, value(thing)))));
}
