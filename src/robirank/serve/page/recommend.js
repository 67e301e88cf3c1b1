// The view of a user or a taste: what is recommended, why, and what rules took away.

import { post } from "./api.js";
import { announce, button, html, mayMove, put } from "./dom.js";
import { hasReasons, leaveOut, like, tastePanel } from "./panel.js";
import { ladder, legend, longest, ofSide, plainBar, reasonBar, sourcesOf } from "./reasons.js";
import { address, remember, session } from "./session.js";
import { amount, called, count, counted, sentence } from "./text.js";
import { isSomebody, questionOf } from "./taste.js";

/** Show the view; what is returned shows the taste anew. */
export function show(root, _, signal) {
  const panel = tastePanel(signal);
  const results = html("section", { class: "results", "aria-label": "Recommendations", "aria-busy": "true" });
  root.append(html("h1", { class: "unseen" }, "Recommendations"), html("div", { class: "split" }, panel.root, results));
  const list = new List(results, signal);
  const update = () => { panel.update(); list.ask(); };
  list.ask();
  return update;
}

/** A list that changes with the taste. Rows keep their elements, and move to their new places. */
class List {
  constructor(root, signal) {
    this.root = root;
    this.signal = signal;
    this.asked = new AbortController();
    this.rows = new Map();
    this.places = new Map();
    this.open = new Set();
    signal.addEventListener("abort", () => this.asked.abort());
  }

  async ask() {
    this.asked.abort();
    this.asked = new AbortController();
    const { signal } = this.asked;
    this.root.setAttribute("aria-busy", "true");
    try {
      const answer = await post("recommend", questionOf(session.taste, { explain: hasReasons() }), signal);
      if (!signal.aborted) this.draw(answer);
    } catch (error) {
      if (error.name !== "AbortError") this.fail(error);
    }
  }

  fail(error) {
    this.rows.clear();
    this.places.clear();
    this.root.setAttribute("aria-busy", "false");
    put(this.root, problemBox(error, () => this.ask()));
  }

  draw(answer) {
    remember(answer.items);
    const isPopular = answer.basis === "popular";
    const lists = answer.items.map((one) => (isPopular ? [] : ofSide(one.reasons ?? [], "user")));
    const hasWhy = lists.some((reasons) => reasons.length);
    const sources = sourcesOf(lists);
    const most = hasWhy ? longest(lists) : Math.max(1e-9, ...answer.items.map((one) => one.score));
    const before = this.tops();
    const places = new Map();
    const rows = answer.items.map((one, place) => {
      const id = String(one.item);
      places.set(id, place);
      return this.row(one, { place, reasons: lists[place], sources, most, hasWhy, isPopular });
    });
    const kept = new Map(rows.map((row) => [row.dataset.id, row]));
    const parts = [rows.length ? html("ol", { class: "list" }, rows) : nothing(), takenAway(answer.rules)];
    put(this.root, this.head(answer, sources, hasWhy), parts);
    this.rows = kept;
    this.places = places;
    this.root.setAttribute("aria-busy", "false");
    this.glide(before);
    announce(`${counted(rows.length, "recommendation")}; first ${answer.items.slice(0, 3).map(called).join(", ")}`);
  }

  head(answer, sources, hasWhy) {
    const basis = {
      row: "from the user's row of the model", "fold-in": "from a row that was found for this taste just now",
      popular: isSomebody(session.taste) ? "nothing is known of this taste, so these are the most popular, with how often each was taken" : "the most popular items and how often each was taken, until you say who is asked for",
    }[answer.basis];
    const left = answer.ignored?.length ? html("p", { class: "small" }, `Unknown to the model: ${answer.ignored.join(", ")}.`) : null;
    return [html("div", { class: "head" }, html("h2", {}, "Recommended"), html("p", { class: "small" }, basis)),
      left, hasWhy ? legend(sources) : whyNot(answer)];
  }

  row(one, { place, reasons, sources, most, hasWhy, isPopular }) {
    const id = String(one.item);
    const was = this.places.get(id);
    const why = html("div", { class: "why", hidden: !this.open.has(id) });
    const opens = hasWhy ? html("button", {
      type: "button", class: "quiet opens", "aria-expanded": String(this.open.has(id)), "aria-label": `Why ${called(one)}`,
      on: { click: () => this.toggle(id, opens, why) } }, "why") : null;
    if (hasWhy) why.append(...explained(one, sources));
    return html("li", { "data-id": id },
      html("div", { class: "line" },
        html("span", { class: "place" }, String(place + 1), movement(was, place, this.places.size)),
        html("div", { class: "what" }, html("a", { href: address("item", id) }, called(one)), one.new ? html("span", { class: "badge" }, "new") : null,
          hasWhy ? reasonBar(reasons, sources, most) : plainBar(one.score / most)),
        html("span", { class: "score number" }, isPopular ? count(one.score) : amount(one.score)),
        html("span", { class: "acts" }, opens,
          button("+", () => like(id), { class: "quiet act", "aria-label": `Likes ${called(one)}`, title: "Likes it" }),
          button("×", () => leaveOut(id), { class: "quiet act", "aria-label": `Leave out ${called(one)}`, title: "Leave it out" }))),
      why);
  }

  toggle(id, opens, why) {
    const isOpen = why.hidden;
    why.hidden = !isOpen;
    opens.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.open.add(id);
    else this.open.delete(id);
  }

  tops() {
    return new Map([...this.rows].map(([id, row]) => [id, row.getBoundingClientRect().top]));
  }

  /** Let rows that were there before slide to where they are now, and new ones appear. */
  glide(before) {
    if (!mayMove() || !before.size) return;
    for (const [id, row] of this.rows) {
      const from = before.get(id);
      const dy = from === undefined ? 0 : from - row.getBoundingClientRect().top;
      if (from === undefined) row.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 240, easing: "ease-out" });
      else if (Math.abs(dy) > 1) {
        row.animate([{ transform: `translateY(${dy}px)` }, { transform: "none" }], { duration: 260, easing: "cubic-bezier(.2,.7,.2,1)" });
      }
    }
  }
}

/** An arrow with the number of places that an item went up or down since the list before. */
function movement(was, place, known) {
  if (!known || was === place) return null;
  if (was === undefined) return html("small", { class: "came" }, "new here");
  const up = was - place;
  return html("small", { class: up > 0 ? "up" : "down" }, `${up > 0 ? "▲" : "▼"} ${Math.abs(up)}`);
}

function explained(one, sources) {
  const user = ofSide(one.reasons, "user");
  const item = ofSide(one.reasons, "item");
  const parts = [ladder(user, one.score, sources, "From the side of the taste")];
  if (item.some((reason) => reason.kind === "feature")) {
    parts.push(ladder(item, one.score, sourcesOf([item]), "From the side of the item"));
  }
  return parts;
}

function nothing() {
  return html("p", { class: "empty" }, "No item is left. Take a rule away, or leave fewer items out.");
}

function whyNot(answer) {
  if (answer.basis === "popular" || !isSomebody(session.taste)) return null;
  const why = session.facts.can.includes("explain")
    ? "Reasons need what users have: start the server with --train FILE." : `A ${session.facts.name} gives no reasons.`;
  return html("p", { class: "small" }, why);
}

/** What rules took away, the most first. */
function takenAway(short) {
  const rules = Object.entries(short?.taken_away ?? {}).filter(([, number]) => number > 0).sort((a, b) => b[1] - a[1]);
  if (!short || (!rules.length && short.items >= short.wanted)) return null;
  const most = Math.max(1, ...rules.map(([, number]) => number));
  const title = short.items < short.wanted ? `${short.items} of ${counted(short.wanted, "item")}: the list is short` : "What rules took away";
  return html("div", { class: "taken" }, html("h3", {}, title),
    html("table", { class: "ladder" }, html("tbody", {}, rules.map(([rule, number]) => html("tr", {},
      html("th", { scope: "row" }, ruleName(rule)), html("td", {}, plainBar(number / most)), html("td", { class: "number" }, count(number)))))));
}

/** What a rule of an answer is called on the page. */
function ruleName(rule) {
  const known = { allow: "the condition", "seen and rules.exclude": "had, or left out", "rules.only": "not among the chosen" };
  return known[rule] ?? rule.replaceAll("_", " ");
}

/** A box that says what is wrong and what would be right. */
export function problemBox(error, again) {
  return html("div", { class: "problem", role: "alert" }, html("h2", {}, "That cannot be answered"), html("p", {}, sentence(error.message)),
    error.field && error.field !== "$" ? html("p", { class: "small" }, `Where: ${error.field}`) : null, button("Try again", again));
}
