// The query view: documents in their order, why one stands above another, and what if a feature were different.

import { post } from "./api.js";
import { button, field, html, later, part, put, svg } from "./dom.js";
import { madeUp, ndcg, readDocuments, textOf } from "./documents.js";
import { plainBar } from "./reasons.js";
import { problemBox } from "./recommend.js";
import { can, session } from "./session.js";
import { amount, counted } from "./text.js";

const SLIDERS = 5;
const STEPS = 33; // scores along the range of a feature
const MOST = 1000; // documents of a request
const SHOWN = 15; // documents of a list that is not asked for in full

/** Show the view. */
export function show(root, _, signal) {
  new QueryView(root, signal).empty();
}

class QueryView {
  constructor(root, signal) {
    this.signal = signal;
    this.names = session.facts.features ?? [];
    this.queries = [];
    this.changes = {}; // features of document A that are different, by name
    this.list = html("section", { class: "results", "aria-label": "Documents" });
    this.why = html("section", { class: "panel why", "aria-label": "Why", hidden: true });
    this.chooser = html("div", { class: "row chooser" });
    root.append(html("h1", { class: "unseen" }, "A query"), this.chooser, html("div", { class: "split wide" }, this.list, this.why));
    this.rerank = later(40, () => this.rank());
  }

  /* Where documents come from. */

  empty(text = "", error = null) {
    const area = html("textarea", { rows: 8, spellcheck: "false", "aria-label": "Documents", value: text, placeholder: `id,${this.names.slice(0, 3).join(",")}…\nfirst,0.3,0.1,0.7…\nsecond,0.5,0.2,0.4…` });
    const read = () => this.take(() => readDocuments(area.value, this.names), area.value);
    this.why.hidden = true;
    put(this.chooser);
    put(this.list, html("div", { class: "open", on: {
      dragover: (event) => event.preventDefault(),
      drop: (event) => { event.preventDefault(); this.file(event.dataTransfer.files[0]); } } },
    html("h2", {}, "Documents of a query"),
    html("p", { class: "lede" }, `Open or drop a file, or paste lines: LETOR (2 qid:7 1:0.3 …), a table with ${counted(this.names.length, "feature")} by name, or JSON. It goes nowhere but to this server.`),
    error ? html("p", { class: "wrong", role: "alert" }, error) : null, area,
    html("div", { class: "row" }, html("button", { type: "button", class: "strong", on: { click: read } }, "Rank them"), this.opener("Open a file"),
      button("Made-up documents", () => this.take(() => madeUp(this.names))))));
  }

  opener(label) {
    const input = html("input", { type: "file", class: "unseen", on: { change: () => this.file(input.files[0]) } });
    return html("label", { class: "quiet file" }, label, input);
  }

  async file(file) {
    if (!file) return;
    try {
      const text = await textOf(file);
      this.take(() => readDocuments(text, this.names));
    } catch (error) {
      this.empty("", `${file.name} cannot be read: ${error.message}`);
    }
  }

  take(read, text = "") {
    try {
      this.queries = read();
    } catch (error) {
      this.empty(text, error.message);
      return;
    }
    this.drawChooser();
    this.choose(0);
  }

  drawChooser() {
    const select = html("select", { on: { change: () => this.choose(Number(select.value)) } },
      this.queries.map((query, place) => html("option", { value: place }, `${query.id || "query"} (${counted(query.documents.length, "document")})`)));
    put(this.chooser, field("Query", select), button("Other documents", () => this.empty()));
  }

  choose(place) {
    this.documents = this.queries[place].documents.slice(0, MOST);
    this.changes = {};
    this.a = this.b = null;
    this.all = false;
    this.before = null;
    this.rank();
  }

  /* Asking. */

  asDocument(place) {
    const { id, features } = this.documents[place];
    return { id, features: place === this.a ? { ...features, ...this.changes } : features };
  }

  async rank() {
    try {
      const documents = this.documents.map((_, place) => this.asDocument(place));
      const told = await post("rank", { documents, missing: this.lacks() ? 0 : undefined }, this.signal);
      if (this.a === null) {
        this.a = told.documents[0].document;
        this.b = told.documents[1]?.document ?? null;
      }
      if (!Object.keys(this.changes).length) this.before = new Map(told.documents.map((one, rank) => [one.document, rank]));
      this.draw(told.documents);
      await this.explain(told.documents);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.why.hidden = true;
      put(this.list, problemBox(error, () => this.rank()));
    }
  }

  lacks() {
    return this.documents.some(({ features }) => Object.keys(features).length < this.names.length);
  }

  /* The list. */

  draw(ranked) {
    const scores = ranked.map((one) => one.score);
    const [low, high] = [Math.min(...scores), Math.max(...scores)];
    const labels = ranked.map((one) => this.documents[one.document].label);
    const isJudged = labels.every((label) => Number.isFinite(label));
    const gain = isJudged ? ndcg(labels) : null;
    put(this.list, html("div", { class: "head" }, html("h2", {}, "Documents"),
      html("p", { class: "small" }, gain === null ? "Press A or B beside a document to compare it." : `NDCG@10 of this query: ${gain.toFixed(3)}`)),
    html("ol", { class: "list documents" }, ranked.map((one, rank) => (this.isShown(one.document, rank)
      ? this.line(one, rank, high > low ? (one.score - low) / (high - low) : 1) : null))),
    this.all || ranked.length <= SHOWN ? "" : button(`Show all ${ranked.length}`, () => { this.all = true; this.draw(ranked); }, { class: "quiet more" }));
  }

  /** The first ones, and A and B wherever they stand. */
  isShown(document, rank) {
    return this.all || rank < SHOWN || document === this.a || document === this.b;
  }

  line(one, rank, share) {
    const { id, label } = this.documents[one.document];
    const was = this.before?.get(one.document) ?? rank;
    const pick = (side) => html("button", {
      type: "button", class: "quiet act", "aria-pressed": String(this[side] === one.document), "aria-label": `${id} as ${side.toUpperCase()}`,
      on: { click: () => this.pick(side, one.document) } }, side.toUpperCase());
    return html("li", { class: one.document === this.a ? "a" : one.document === this.b ? "b" : null },
      html("div", { class: "line" }, html("span", { class: "place" }, String(rank + 1),
        was === rank ? null : html("small", { class: was > rank ? "up" : "down" }, `${was > rank ? "▲" : "▼"} ${Math.abs(was - rank)}`)),
      html("div", { class: "what" }, html("span", {}, id), Number.isFinite(label) ? html("span", { class: label > 0 ? "badge" : "badge zero" }, `judged ${label}`) : null, plainBar(share)),
      html("span", { class: "score number" }, amount(one.score)), html("span", { class: "acts" }, pick("a"), pick("b"))));
  }

  pick(side, document) {
    const other = side === "a" ? "b" : "a";
    if (this[other] === document) this[other] = this[side];
    this[side] = document;
    this.changes = {};
    this.rank();
  }

  /* Why A stands above B, and what if A were different. */

  async explain(ranked) {
    const rankOf = new Map(ranked.map((one, rank) => [one.document, rank]));
    this.why.hidden = false;
    const parts = [];
    if (this.b !== null && can("explain")) {
      const [above, below] = rankOf.get(this.a) < rankOf.get(this.b) ? [this.a, this.b] : [this.b, this.a];
      const pair = { documents: [this.asDocument(above), this.asDocument(below)], explain: true, missing: this.lacks() ? 0 : undefined };
      const told = await post("rank", pair, this.signal);
      parts.push(this.contrasts(told.documents, above === this.a ? ["A", "B"] : ["B", "A"]));
    }
    if (this.sliders?.of !== this.a || !Object.keys(this.changes).length) {
      const effects = parts.length ? this.lastEffects : [];
      this.sliders = { of: this.a, node: this.makeSliders(effects) };
    }
    put(this.stands, ...this.standing(rankOf.get(this.a), ranked[rankOf.get(this.a)].score));
    this.showWhy(parts);
  }

  /** Put reasons below the sliders, which stay where they are: one of them may be held. */
  showWhy(parts) {
    const { node } = this.sliders;
    for (const child of [...this.why.children]) if (child !== node) child.remove();
    if (!node.isConnected) this.why.prepend(node);
    this.why.append(...parts);
  }

  /** Where A stands now, and where it stood as it is. */
  standing(rank, score) {
    const was = this.before?.get(this.a);
    if (!Object.keys(this.changes).length) this.scoreBefore = score;
    const now = html("strong", {}, `Place ${rank + 1}`);
    if (was === undefined || !Object.keys(this.changes).length) return [now, ` of ${this.documents.length}, score ${amount(score)}`];
    return [now, ` of ${this.documents.length} (was ${was + 1}), score ${amount(score)} (was ${amount(this.scoreBefore)})`];
  }

  contrasts(pair, [upper, lower]) {
    const told = pair[0].above_next ?? [];
    this.lastEffects = told.map((one) => one.feature);
    const most = Math.max(1e-12, ...told.map((one) => Math.abs(one.effect)));
    const bar = (effect) => svg("svg", { class: "bar step", viewBox: "-1000 0 2000 12", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("line", { class: "zero", x1: 0, x2: 0, y1: 0, y2: 12 }),
      svg("rect", { class: effect < 0 ? "c1" : "c0", x: Math.min(0, (effect / most) * 1000), y: 1, width: Math.abs(effect / most) * 1000, height: 10 }));
    const rows = told.map((one) => html("tr", {}, html("th", { scope: "row" }, one.feature), html("td", { class: "number soft" }, amount(one.value)),
      html("td", { class: "number soft" }, amount(one.value_below)), html("td", {}, bar(one.effect)), html("td", { class: "number" }, amount(one.effect, { sign: true }))));
    const caption = `Features that speak for ${upper} above ${lower}; they add up to ${amount(pair[0].score - pair[1].score, { sign: true })}.`;
    return part(`Why ${upper} stands above ${lower}`, html("table", { class: "ladder" }, html("caption", {}, caption),
      html("thead", {}, html("tr", {}, html("th", {}, "feature"), html("th", { class: "number" }, upper), html("th", { class: "number" }, lower),
        html("th", {}, html("span", { class: "unseen" }, "bar")), html("th", { class: "number" }, "effect"))),
      html("tbody", {}, rows)));
  }

  /** Sliders of the features that matter, each with the score along its range. */
  makeSliders(effects) {
    const first = effects.filter((name) => this.names.includes(name));
    const shown = [...first, ...this.names.filter((name) => !first.includes(name))].slice(0, SLIDERS);
    const ranges = new Map(this.names.map((name) => [name, this.rangeOf(name)]));
    const reset = button("As it is", () => { this.changes = {}; this.sliders = null; this.rank(); });
    const add = html("select", { "aria-label": "Another feature", on: { change: () => { body.append(this.slider(add.value, ranges.get(add.value))); } } },
      html("option", { value: "" }, "Another feature …"), this.names.filter((name) => !shown.includes(name)).map((name) => html("option", { value: name }, name)));
    const body = html("div", {}, shown.map((name) => this.slider(name, ranges.get(name))));
    const { id } = this.documents[this.a];
    this.stands = html("p", { class: "stands", role: "status" });
    return part("What if", html("p", { class: "small" }, `A is ${id}. Change a feature, and see where it would stand; the line is its score along the feature.`),
      this.stands, body, html("div", { class: "row" }, reset, this.names.length > shown.length ? add : null));
  }

  rangeOf(name) {
    const values = this.documents.map(({ features }) => features[name] ?? 0);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const more = (high - low || Math.abs(high) || 1) * 0.2;
    return [low >= 0 && low - more < 0 ? 0 : low - more, high + more];
  }

  slider(name, [low, high]) {
    const start = this.asDocument(this.a).features[name] ?? 0;
    const shown = html("output", {}, amount(start));
    const curve = html("div", { class: "curve" });
    const input = html("input", {
      type: "range", min: low, max: high, step: (high - low) / 200, value: String(start), "aria-label": name,
      on: { input: () => { shown.textContent = amount(Number(input.value)); this.changes[name] = Number(input.value); this.rerank(); } },
    });
    this.drawCurve(curve, name, low, high, start);
    return html("div", { class: "slider" }, html("label", {}, name), shown, curve, input);
  }

  async drawCurve(node, name, low, high, start) {
    const document = this.asDocument(this.a);
    const at = Array.from({ length: STEPS }, (_, k) => low + ((high - low) * k) / (STEPS - 1));
    const documents = at.map((value) => ({ features: { ...document.features, [name]: value } }));
    try {
      const told = await post("rank", { documents, missing: this.lacks() ? 0 : undefined }, this.signal);
      const scores = [];
      for (const one of told.documents) scores[one.document] = one.score;
      const [least, most] = [Math.min(...scores), Math.max(...scores)];
      const y = (score) => 27 - (24 * (score - least)) / (most - least || 1);
      const path = scores.map((score, k) => `${k ? "L" : "M"}${(200 * k) / (STEPS - 1)} ${most > least ? y(score) : 15}`).join("");
      const x = (200 * (start - low)) / (high - low);
      put(node, svg("svg", { viewBox: "0 0 200 30", preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("line", { class: "zero", x1: x, x2: x, y1: 0, y2: 30 }), svg("path", { d: path })));
    } catch {
      put(node);
    }
  }
}
