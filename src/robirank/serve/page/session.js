// What all views share: the model, the taste, names of items; and the address that says where one is.

import { post } from "./api.js";
import { queryOf, tasteOf } from "./taste.js";

export const session = { facts: null, taste: tasteOf(new URLSearchParams()), names: new Map(), changed: () => {} };

/** The view and what follows it in the address: "#/item/51?user=7" is ["item", "51"]. */
export function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [view, ...rest] = path.split("/");
  return { view: view || "", rest: safelyDecoded(rest.join("/")), query: new URLSearchParams(query) };
}

function safelyDecoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The address of a view, with the taste. */
export function address(view, rest = "", taste = session.taste) {
  const query = queryOf(taste);
  return `#/${view}${rest === "" ? "" : `/${encodeURIComponent(rest)}`}${query ? `?${query}` : ""}`;
}

/** Change the taste, the address, and what is shown. */
export function change(patch) {
  session.taste = { ...session.taste, ...patch };
  const { view, rest } = place();
  history.replaceState(null, "", address(view || "taste", rest));
  session.changed();
}

/** Whether the model can do something. */
export function can(what) {
  return session.facts.can?.includes(what) ?? false;
}

/** Remember the names of items that an answer has. */
export function remember(items) {
  for (const one of items) {
    const id = String(one.item ?? one.id);
    if (one.name) session.names.set(id, one.name);
    else if (!session.names.has(id)) session.names.set(id, null);
  }
}

/** What an item is called, as far as it is known. */
export function nameOf(id) {
  return session.names.get(String(id)) ?? String(id);
}

/** Ask for the names of items that are not known yet. */
export async function learnNames(ids, signal) {
  const unknown = ids.filter((id) => !session.names.has(String(id)));
  if (unknown.length) remember((await post("places", { items: unknown.slice(0, 1000) }, signal)).items);
}
