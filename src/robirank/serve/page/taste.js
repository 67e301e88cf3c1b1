// Who is asked for: a user, items that somebody likes, and what is wanted. It is part of the address of the page.

const NUMBERS = { n: 10, variety: 0, popularity: 0 };
const TEXTS = ["user", "where", "cap", "capped"];

/** A taste that nobody has said anything about. */
export function noTaste() {
  return { user: "", items: [], out: [], features: {}, seen: "hide", where: "", cap: "", capped: "", ...NUMBERS };
}

/** The taste that a part of an address says. */
export function tasteOf(query) {
  const taste = noTaste();
  for (const name of TEXTS) taste[name] = query.get(name) ?? "";
  for (const [name, preset] of Object.entries(NUMBERS)) {
    const number = Number(query.get(name) ?? preset);
    taste[name] = Number.isFinite(number) ? number : preset;
  }
  taste.items = query.getAll("item");
  taste.out = query.getAll("out");
  taste.seen = query.get("seen") === "show" ? "show" : "hide";
  for (const pair of query.getAll("is")) {
    const at = pair.indexOf("=");
    if (at > 0) taste.features[pair.slice(0, at)] = pair.slice(at + 1);
  }
  return taste;
}

/** A taste as a part of an address. */
export function queryOf(taste) {
  const query = new URLSearchParams();
  for (const name of TEXTS) if (taste[name]) query.set(name, taste[name]);
  for (const id of taste.items) query.append("item", id);
  for (const id of taste.out) query.append("out", id);
  for (const [name, text] of Object.entries(taste.features)) if (text) query.append("is", `${name}=${text}`);
  for (const [name, preset] of Object.entries(NUMBERS)) if (taste[name] !== preset) query.set(name, taste[name]);
  if (taste.seen === "show") query.set("seen", "show");
  return query.toString();
}

/** Whether something is known of who is asked for. */
export function isSomebody(taste) {
  return Boolean(taste.user || taste.items.length || Object.values(taste.features).some(Boolean));
}

/** A taste as a question to the server. */
export function questionOf(taste, more = {}) {
  const rules = {};
  if (taste.where) rules.where = taste.where;
  if (taste.out.length) rules.exclude = taste.out;
  if (taste.cap && Number(taste.capped) > 0) rules.at_most = { [taste.cap]: Number(taste.capped) };
  const features = Object.entries(taste.features).filter(([, text]) => text);
  const question = { n: taste.n, seen: taste.seen, ...more };
  if (taste.user) question.user = taste.user;
  if (taste.items.length) question.items = taste.items;
  if (features.length) question.features = Object.fromEntries(features.map(([k, text]) => [k, valueOf(text)]));
  if (Object.keys(rules).length) question.rules = rules;
  if (taste.variety) question.variety = taste.variety;
  if (taste.popularity) question.popularity = taste.popularity;
  return question;
}

function valueOf(text) {
  return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}
