// Questions to the server. An answer that is an error becomes a Problem, which says what would be right.

const KEY = "robirank-key";
const base = new URL("v1/", document.baseURI);
let askForKey = async () => null;
let asking = null; // one dialog for all requests that wait for a key

/** An error that the server told, or that kept it from answering. */
export class Problem extends Error {
  constructor({ code, detail, field, status }) {
    super(detail);
    Object.assign(this, { code, field, status });
  }
}

/** Set what asks the reader for an API key; it gives null where the reader has none. */
export function setKeyDialog(ask) {
  askForKey = ask;
}

async function send(method, path, { query, body, signal } = {}) {
  const url = new URL(path, base);
  for (const [name, value] of Object.entries(query ?? {})) url.searchParams.set(name, value);
  const key = sessionStorage.getItem(KEY);
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(url, { method, headers, signal, body: body === undefined ? undefined : written(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ code: "unreachable", detail: "The server does not answer. Is it running?", status: 0 });
  }
  const text = await response.text();
  if (response.ok) return read(text);
  let told = {};
  try {
    told = JSON.parse(text);
  } catch {
    told = { code: "unexpected", detail: response.statusText };
  }
  if (response.status === 401 || response.status === 403) {
    asking ??= askForKey(told.code).finally(() => { asking = null; });
    const given = await asking;
    if (given) {
      sessionStorage.setItem(KEY, given);
      return send(method, path, { query, body, signal });
    }
  }
  throw new Problem({ ...told, status: response.status });
}

/** JSON with integers that a number of JavaScript cannot hold kept as text. */
function read(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) => {
    const isLost = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return isLost && context ? context.source : value;
  });
}

function written(body) {
  return JSON.stringify(body, (_, value) => (value === null ? undefined : value));
}

/** GET a route below /v1. */
export function get(path, query, signal) {
  return send("GET", path, { query, signal });
}

/** POST to a route below /v1. */
export function post(path, body, signal) {
  return send("POST", path, { body, signal });
}

/** A path with an id in it. */
export function path(route, id) {
  return `${route}/${encodeURIComponent(id)}`;
}
