// The page: which view is shown, the colours, and a dialog for the key.

import { get, setKeyDialog } from "./api.js";
import { announce, button, html, put } from "./dom.js";
import { can, place, session, address } from "./session.js";
import { tasteOf } from "./taste.js";
import * as comparison from "./compare.js";
import * as item from "./item.js";
import * as map from "./map.js";
import * as model from "./model.js";
import * as ranking from "./rank.js";
import * as recommendations from "./recommend.js";

const VIEWS = { taste: recommendations, item, map, compare: comparison, rank: ranking, model };
const main = document.getElementById("main");
let leaving = new AbortController();
let shown = null;

function viewsOfModel() {
  if (session.facts.kind === "ranker") return [["rank", "Query"], ["model", "Model"]];
  const views = [["taste", "Taste"], ["item", "Item"]];
  if (session.facts.factors > 1) views.push(["map", "Map"]);
  if (can("compare")) views.push(["compare", "Compare"]);
  return [...views, ["model", "Model"]];
}

/** Show what the address says. */
function show() {
  leaving.abort();
  leaving = new AbortController();
  const views = viewsOfModel();
  const { view, rest, query } = place();
  const name = views.some(([known]) => known === view) ? view : views[0][0];
  session.taste = tasteOf(query);
  markViews(views, name);
  const title = views.find(([known]) => known === name)[1];
  document.title = `${title} – ${session.facts.name} – robirank`;
  main.className = `view-${name}`;
  put(main);
  shown = VIEWS[name].show(main, rest, leaving.signal) ?? null;
  announce(title);
}

function markViews(views, name) {
  put(document.getElementById("views"), ...views.map(([view, title]) =>
    html("a", { href: address(view), "aria-current": view === name ? "page" : null }, title)));
}

session.changed = () => {
  markViews(viewsOfModel(), place().view || "taste");
  shown?.();
};

/* Light, dark, or as the system says. */
const THEMES = ["auto", "light", "dark"];
function setTheme(theme) {
  const known = THEMES.includes(theme) ? theme : "auto";
  document.documentElement.dataset.theme = known;
  const toggle = document.getElementById("theme");
  toggle.textContent = { auto: "Auto", light: "Light", dark: "Dark" }[known];
  toggle.setAttribute("aria-label", `Colours: ${known}`);
  localStorage.setItem("robirank-theme", known);
  window.dispatchEvent(new Event("themechange"));
}
document.getElementById("theme").addEventListener("click", () => {
  setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]);
});

/** Ask for an API key; null where the reader gives none. */
function askForKey(code) {
  const why = code === "wrong_key" ? "The server does not know this key." : "Whoever runs the server can give you one. It is kept until this tab is closed.";
  return new Promise((settle) => {
    const input = html("input", { type: "password", autocomplete: "off", "aria-label": "API key", required: true });
    const dialog = html("dialog", { "aria-labelledby": "key-title", on: { close: () => { dialog.remove(); settle(dialog.returnValue || null); } } },
      html("form", { method: "dialog", on: { submit: (event) => { event.preventDefault(); dialog.close(input.value); } } },
        html("h2", { id: "key-title" }, "This server asks for a key"), html("p", { class: "small" }, why), input,
        html("div", { class: "row" }, html("button", { class: "strong" }, "Use it"), button("Cancel", () => dialog.close("")))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/* "/" goes to the search box of a view, as on many sites. */
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select, dialog");
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const box = main.querySelector('input[type="search"]');
  if (box) {
    event.preventDefault();
    box.focus();
  }
});

async function start() {
  setTheme(localStorage.getItem("robirank-theme"));
  setKeyDialog(askForKey);
  try {
    session.facts = await get("model");
  } catch (error) {
    put(main, html("div", { class: "problem", role: "alert" },
      html("h1", {}, "No model to look into"), html("p", {}, error.message), button("Try again", () => location.reload())));
    return;
  }
  const about = document.getElementById("about");
  put(about, html("strong", {}, session.facts.name), html("span", {}, session.facts.file ?? session.facts.model));
  window.addEventListener("hashchange", show);
  show();
}

start();
