// The panel where one says who is asked for, and what is wanted. Every change changes the address.

import { get, path } from "./api.js";
import { button, field, html, later, put } from "./dom.js";
import { searchBox } from "./search.js";
import { address, can, change, learnNames, nameOf, remember, session } from "./session.js";
import { amount, called, counted, userName } from "./text.js";
import { isSomebody, noTaste } from "./taste.js";

const MANY = 8;
const HAS = 12;

/** Users and items that a text means, for a search box. */
export async function findAnything(text, signal) {
  const [users, items] = await Promise.all([
    get("users", { search: text, n: 4 }, signal), get("items", { search: text, n: MANY }, signal)]);
  remember(items.items);
  const asItems = { title: "Items", options: items.items.map((one) => ({
    label: called(one), note: one.taken === undefined ? "" : `taken by ${one.taken}`, value: { item: String(one.item) } })) };
  const asUsers = { title: "Users", options: users.users.map((one) => ({
    label: userName(one.user), note: one.number ? `has ${counted(one.number, "item")}` : "", value: { user: String(one.user) } })) };
  return [asItems, asUsers];
}

/** Items that a text means, for a search box. */
export async function findItems(text, signal) {
  const found = await findAnything(text, signal);
  return [found[0]];
}

/** Add an item to the taste. */
export function like(id) {
  const items = session.taste.items.filter((one) => one !== String(id));
  change({ items: [...items, String(id)], out: session.taste.out.filter((one) => one !== String(id)) });
}

/** Leave an item out of lists. */
export function leaveOut(id) {
  change({ out: [...session.taste.out.filter((one) => one !== String(id)), String(id)] });
}

/** The panel, and a function that shows the taste anew. */
export function tastePanel(signal) {
  const who = html("div", { class: "who" });
  const root = html("section", { class: "panel", "aria-label": "Who is asked for" },
    searchBox({
      label: "A user's id, or an item's name", hint: "A user's id, or an item's name", find: findAnything,
      choose: (value) => (value.user === undefined ? like(value.item) : change({ user: value.user })),
    }),
    who, wishes(), rules(), features());
  let last = "";
  const update = () => {
    const { user, items, out } = session.taste;
    const now = JSON.stringify([user, items, out]);
    if (now === last) return;
    last = now;
    showWho(who, signal);
    learnNames([...items, ...out], signal).then(() => showWho(who, signal), () => {});
  };
  update();
  return { root, update };
}

function showWho(who, signal) {
  const { user, items, out } = session.taste;
  const parts = [];
  if (user) {
    const has = html("div", { class: "has" });
    parts.push(html("div", { class: "chips" }, chip(userName(user), () => change({ user: "" }), "user")), has);
    showHistory(has, user, signal);
  }
  if (items.length) {
    parts.push(html("h2", { class: "minor" }, user ? "and likes" : "Someone who likes"), html("div", { class: "chips" }, items.map((id) =>
      chip(nameOf(id), () => change({ items: items.filter((one) => one !== id) }), "item", id))));
  }
  if (out.length) {
    parts.push(html("h2", { class: "minor" }, "Left out"), html("div", { class: "chips" }, out.map((id) =>
      chip(nameOf(id), () => change({ out: out.filter((one) => one !== id) }), "out", id))));
  }
  if (isSomebody(session.taste) || out.length) {
    parts.push(button("Start over", () => change(noTaste()), { class: "link" }));
  } else {
    const users = html("div", { class: "chips" });
    parts.push(html("p", { class: "small" }, "Nobody yet. Search, click items in the list, or look at a user:"), users);
    suggest(users, signal);
  }
  put(who, ...parts);
}

function chip(text, remove, kind, id) {
  const label = kind === "user" ? html("span", {}, text) : html("a", { href: address("item", id) }, text);
  return html("span", { class: `chip ${kind}` }, label,
    html("button", { type: "button", "aria-label": `Remove ${text}`, on: { click: remove } }, "×"));
}

let userShown = { id: null, told: null };

async function showHistory(has, user, signal) {
  try {
    if (userShown.id !== user) userShown = { id: user, told: await get(path("users", user), { n: 200 }, signal) };
  } catch {
    return; // the list says what is wrong
  }
  const { told } = userShown;
  if (!told.number) return;
  remember(told.items);
  const link = (one) => html("li", {}, html("a", { href: address("item", one.item) }, called(one)));
  const more = told.items.slice(HAS);
  put(has, html("h2", { class: "minor" }, `has ${counted(told.number, "item")}`),
    html("ul", { class: "plain" }, told.items.slice(0, HAS).map(link)),
    more.length ? html("details", {}, html("summary", {}, `${more.length} more`), html("ul", { class: "plain" }, more.map(link))) : null);
}

async function suggest(node, signal) {
  try {
    const { users } = await get("users", { n: 6 }, signal);
    put(node, ...users.map((one) =>
      button(userName(one.user), () => change({ user: String(one.user) }), { class: "chip user" })));
  } catch {
    put(node);
  }
}

function slider(name, label, says) {
  const id = `slider-${name}`;
  const shown = html("output", { for: id }, amount(session.taste[name]));
  const send = later(60, (number) => change({ [name]: number }));
  const input = html("input", {
    id, type: "range", min: 0, max: 1, step: 0.05, value: String(session.taste[name]), "aria-describedby": `${id}-says`,
    on: { input: () => { shown.textContent = amount(Number(input.value)); send(Number(input.value)); } },
  });
  return html("div", { class: "slider" }, html("label", { for: id }, label), shown, input,
    html("p", { id: `${id}-says`, class: "small" }, says));
}

function wishes() {
  const { taste } = session;
  const length = html("select", { value: null, on: { change: () => change({ n: Number(length.value) }) } },
    [...new Set([5, 10, 20, 50, taste.n])].sort((a, b) => a - b).map((n) => html("option", { value: n }, String(n))));
  length.value = String(taste.n);
  const seen = html("input", { type: "checkbox", on: { change: () => change({ seen: seen.checked ? "show" : "hide" }) } });
  seen.checked = taste.seen === "show";
  return html("div", { class: "wishes" },
    slider("variety", "Variety", "Towards 1 the items of the list are less alike."),
    slider("popularity", "Against the popular", "How much of what popularity alone explains is taken off."),
    html("div", { class: "row" }, field("Length", length),
      html("label", { class: "check" }, seen, "Also what the user has")));
}

function rules() {
  const columns = Object.keys(session.facts.columns ?? {}).filter((column) => column !== "id");
  if (!columns.length) return null;
  const { taste } = session;
  const where = html("input", {
    type: "text", value: taste.where, spellcheck: "false", placeholder: `${columns[0]} …`,
    on: { change: () => change({ where: where.value.trim() }) },
  });
  const cap = html("select", { on: { change: () => change({ cap: cap.value }) } },
    html("option", { value: "" }, "no limit"), columns.map((column) => html("option", { value: column }, column)));
  cap.value = taste.cap;
  const capped = html("input", {
    type: "number", min: 1, max: 100, value: taste.capped || "2", on: { change: () => change({ capped: capped.value }) },
  });
  cap.addEventListener("change", () => change({ cap: cap.value, capped: capped.value }));
  const isOpen = Boolean(taste.where || taste.cap);
  return html("details", { class: "rules", open: isOpen }, html("summary", {}, "Rules"),
    field("Only items where", where, html("small", {}, `Columns: ${columns.join(", ")}`)),
    html("div", { class: "row" }, field("At most", capped), field("of each", cap)));
}

function features() {
  const names = session.facts.user_features ?? [];
  if (!names.length) return null;
  const { taste } = session;
  const inputs = names.map((name) => {
    const input = html("input", {
      type: "text", value: taste.features[name] ?? "",
      on: { change: () => change({ features: { ...session.taste.features, [name]: input.value.trim() } }) },
    });
    return field(name, input);
  });
  return html("details", { class: "rules", open: isSomebody(taste) && Object.keys(taste.features).length > 0 },
    html("summary", {}, "What is known of the person"), inputs);
}

/** Whether reasons can be asked for. */
export function hasReasons() {
  return can("explain") && isSomebody(session.taste) && (can("seen") || !session.taste.user || session.taste.items.length > 0);
}
