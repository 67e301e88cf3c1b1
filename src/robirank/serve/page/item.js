// The view of an item: what is like it, who takes it, what is known of it, where it stands for a taste.

import { get, path, post } from "./api.js";
import { button, html, part, put } from "./dom.js";
import { findItems, hasReasons, like } from "./panel.js";
import { ladder, ofSide, plainBar, sourcesOf } from "./reasons.js";
import { problemBox } from "./recommend.js";
import { searchBox } from "./search.js";
import { address, change, learnNames, nameOf, remember, session } from "./session.js";
import { amount, called, count, counted, percent, userName, value } from "./text.js";
import { isSomebody, questionOf } from "./taste.js";

const NEIGHBOURS = 12;

/** Show the view of an item, or of none yet. */
export function show(root, id, signal) {
  const go = (value) => { location.hash = address("item", value.item); };
  const search = searchBox({ label: "An item's name or id", hint: "An item's name or id", find: findItems, choose: go });
  const page = html("div", { class: "item" });
  root.append(html("div", { class: "narrow" }, search), page);
  const fill = () => (id ? about(page, id, signal) : start(page, signal)).catch((error) => {
    if (error.name !== "AbortError") put(page, problemBox(error, fill));
  });
  fill();
  return fill;
}

async function start(page, signal) {
  const { items } = await post("recommend", { n: 12 }, signal);
  remember(items);
  put(page, html("h1", {}, "Items"),
    html("p", { class: "lede" }, "Search for an item, or begin with one that many take."),
    html("ul", { class: "tiles" }, items.map((one) => html("li", {}, html("a", { href: address("item", one.item) }, called(one),
      html("small", {}, `taken by ${count(one.score)}`))))));
}

async function about(page, id, signal) {
  const [item, takers] = await Promise.all([
    get(path("items", id), { n: NEIGHBOURS }, signal), get(path("takers", id), { n: 10 }, signal)]);
  remember([item, ...item.similar, ...takers.also]);
  const stands = html("div", {});
  put(page,
    html("div", { class: "title" }, html("p", { class: "overline" }, `item ${item.item}`), html("h1", {}, called(item)),
      html("p", { class: "lede" }, item.new ? html("span", { class: "badge" }, "new") : null,
        item.new ? " Nobody had taken it when the model was trained." : item.taken === undefined ? "" : `Taken ${counted(item.taken, "time")}.`),
      html("p", { class: "row" }, likes(id), session.facts.factors > 1 ? html("a", { class: "quiet", href: address("map", id) }, "Show on the map") : null)),
    html("div", { class: "columns" },
      part("Most like it", similar(item)),
      html("div", {}, part("Where it would stand", stands), part("Who takes it", who(takers, item))),
      attributes(item)));
  standing(stands, String(item.item), signal);
}

function likes(id) {
  const isLiked = session.taste.items.includes(String(id));
  return button(isLiked ? "In the taste" : "Add to the taste", () => like(id), { disabled: isLiked });
}

function similar(item) {
  if (!item.similar.length) return html("p", { class: "empty" }, "The model knows nothing that is like it.");
  return html("ol", { class: "lines" }, item.similar.map((one) => html("li", {},
    html("a", { href: address("item", one.item) }, called(one)), one.new ? html("span", { class: "badge" }, "new") : null,
    plainBar(one.score), html("span", { class: "number" }, amount(one.score)))));
}

function who(takers, item) {
  if (!takers.number) {
    const why = session.facts.can.includes("seen") ? "Nobody in the table has it." : "The server does not know what users have: start it with --train FILE.";
    return html("p", { class: "empty" }, item.new ? "Nobody yet." : why);
  }
  const users = html("p", { class: "chips" }, takers.users.map((user) =>
    html("a", { class: "chip user", href: address("taste", "", { ...session.taste, user: String(user), items: [], out: [] }) }, userName(user))),
  takers.number > takers.users.length ? html("span", { class: "small" }, `and ${count(takers.number - takers.users.length)} more`) : null);
  if (!takers.also.length) return users;
  const most = Math.max(...takers.also.map((one) => one.share));
  return [users, html("h3", {}, "What they take more often than others"),
    html("table", { class: "ladder also" }, html("thead", {}, html("tr", {}, html("th", {}, "item"), html("th", {}, html("span", { class: "unseen" }, "bar")),
      html("th", { class: "number" }, "they"), html("th", { class: "number" }, "all"))),
    html("tbody", {}, takers.also.map((one) => html("tr", {},
      html("th", { scope: "row" }, html("a", { href: address("item", one.item) }, called(one))), html("td", {}, plainBar(one.share / most)),
      html("td", { class: "number" }, percent(one.share)), html("td", { class: "number soft" }, percent(one.usual))))))];
}

function attributes(item) {
  const pairs = Object.entries(item.attributes ?? {});
  if (!pairs.length) return null;
  return part("What is known of it", html("dl", { class: "facts" }, pairs.map(([name, thing]) =>
    html("div", {}, html("dt", {}, name), html("dd", {}, value(thing))))));
}

/** Where the item stands in the list of all, for the taste, or for someone who took one other item. */
async function standing(node, id, signal) {
  const { taste } = session;
  const others = taste.items.filter((one) => one !== id);
  const asked = { ...taste, items: others, out: [], where: "", cap: "", variety: 0 };
  const search = searchBox({
    label: "For someone who took", hint: "for someone who took …", find: findItems,
    choose: (chosen) => change({ items: [...new Set([...taste.items, chosen.item])] }),
  });
  if (!isSomebody(asked)) {
    put(node, html("p", { class: "small" }, "Say who, or what someone took:"), search);
    return;
  }
  try {
    const question = questionOf(asked);
    const why = { ...questionOf({ ...asked, n: 1, seen: "show" }, { explain: hasReasons() }), rules: { only: [id] } };
    const [stands, list] = await Promise.all([
      post("standing", { item: id, question }, signal), post("recommend", why, signal).catch(() => ({ items: [] })), learnNames(others, signal)]);
    const reasons = ofSide(list.items[0]?.reasons ?? [], "user");
    const names = [taste.user ? userName(taste.user) : null, ...others.map(nameOf)].filter(Boolean);
    put(node, html("p", { class: "small" }, `For ${names.join(", ")}`), ...verdict(stands),
      reasons.length ? ladder(reasons, list.items[0].score, sourcesOf([reasons]), "Why") : null, search);
  } catch (error) {
    if (error.name !== "AbortError") put(node, html("p", { class: "small" }, error.message), search);
  }
}

function verdict(stands) {
  if (stands.place === null) return [html("p", {}, "It would not stand there at all: the user took against it.")];
  const share = Math.log(stands.place) / Math.log(Math.max(2, stands.of));
  return [html("p", { class: "verdict" }, html("strong", {}, count(stands.place)), ` of ${counted(stands.of, "item")}`),
    html("div", { class: "track", "aria-hidden": "true" }, html("i", { style: { left: `${100 * share}%` } }),
      html("span", {}, "first"), html("span", {}, "last"))];
}
