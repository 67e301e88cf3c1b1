// A box to search as one types: a combobox with a list below it, for mouse, touch and keys.

import { announce, html, later, newId, put } from "./dom.js";
import { counted } from "./text.js";

const WAIT = 120; // milliseconds without a key before the server is asked

/**
 * A search box.
 * find(text, signal) gives [{ title, options: [{ label, note, value }] }]; choose(value) takes one.
 */
export function searchBox({ label, hint, find, choose }) {
  const listId = newId("found");
  let asked = new AbortController();
  let options = [];
  let active = -1;

  const list = html("div", { id: listId, class: "found", role: "listbox", "aria-label": label, hidden: true });
  const input = html("input", {
    type: "search", role: "combobox", autocomplete: "off", spellcheck: "false", placeholder: hint,
    "aria-label": label, "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": listId,
    on: {
      input: later(WAIT, () => look()),
      keydown: (event) => press(event),
      focus: () => look(),
      blur: () => close(),
    },
  });

  async function look() {
    asked.abort();
    asked = new AbortController();
    const { signal } = asked;
    const text = input.value.trim();
    if (!text) return close();
    let groups = [];
    try {
      groups = await find(text, signal);
    } catch (error) {
      if (error.name !== "AbortError") show([], error.message);
      return undefined;
    }
    if (signal.aborted || document.activeElement !== input) return undefined;
    return show(groups.filter((group) => group.options.length), `Nothing is called “${text}”.`);
  }

  function show(groups, nothing) {
    options = [];
    active = -1;
    const parts = groups.map(({ title, options: some }) => {
      const heading = newId("group");
      return html("div", { role: "group", "aria-labelledby": heading },
        html("div", { id: heading, class: "heading" }, title), some.map(line));
    });
    put(list, ...(parts.length ? parts : [html("p", { class: "small" }, nothing)]));
    list.hidden = false;
    input.setAttribute("aria-expanded", String(parts.length > 0));
    announce(parts.length ? `${counted(options.length, "result")}` : nothing);
  }

  function line(option) {
    const node = html("div", {
      id: newId("option"), class: "option", role: "option", "aria-selected": "false",
      // The press, and not the click: the focus must stay in the box.
      on: { pointerdown: (event) => { event.preventDefault(); take(option.value); } },
    }, html("span", {}, option.label), html("small", {}, option.note));
    options.push({ node, value: option.value });
    return node;
  }

  function press(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) look();
      else if (options.length) move(active + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter" && options.length) { // without a choice, the first
      event.preventDefault();
      take(options[Math.max(0, active)].value);
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      close();
    }
  }

  function move(to) {
    options[active]?.node.setAttribute("aria-selected", "false");
    active = to < 0 ? options.length - 1 : to % options.length;
    const { node } = options[active];
    node.setAttribute("aria-selected", "true");
    input.setAttribute("aria-activedescendant", node.id);
    node.scrollIntoView({ block: "nearest" });
  }

  function take(value) {
    input.value = "";
    close();
    choose(value);
  }

  function close() {
    asked.abort();
    list.hidden = true;
    options = [];
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  return html("div", { class: "search" }, input, list);
}
