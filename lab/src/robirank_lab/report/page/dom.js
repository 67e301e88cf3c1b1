// Making elements. Text only ever becomes text nodes, so that no name in the data can be markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (name === "style") {
      for (const [property, v] of Object.entries(value)) node.style.setProperty(property, v);
    } else {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** An HTML element with attributes and children. */
function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element with attributes and children. */
function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function byRole(root, role) {
  return root.querySelector(`[data-role="${role}"]`);
}

/** A few choices side by side, one of which holds: radio buttons, so that arrow keys work. */
function choice(legend, name, options, chosen, change) {
  const labels = options.map(({ value, text, disabled }) => {
    const input = html("input", {
      type: "radio", name, value, disabled,
      on: { change: () => change(value) },
    });
    input.checked = value === chosen;
    return html("label", {}, input, text);
  });
  return html("fieldset", { class: "choice" },
    html("legend", {}, legend), html("div", { class: "options" }, labels));
}

/** A labelled list to choose from. */
function chooser(label, options, chosen, change) {
  const select = html("select", { on: { change: () => change(select.value) } },
    options.map(({ value, text, disabled }) => html("option", { value, disabled }, text)));
  select.value = chosen;
  return html("label", { class: "field" }, label, select);
}

/** Say something to those who cannot see it. */
function announce(text) {
  document.getElementById("live").textContent = text;
}

let byKeyboard = false;
document.addEventListener("keydown", () => { byKeyboard = true; }, true);
document.addEventListener("pointermove", () => { byKeyboard = false; }, true);

const tooltip = {
  node: document.getElementById("tooltip"),
  anchor: null,
  /** Show a title and rows of two cells beside a point of the window, which anchor() tells. */
  show(anchor, title, rows) {
    const body = rows.map((row) => html("tr", {}, row.map((cell) => html("td", {}, cell))));
    this.node.replaceChildren(html("strong", {}, title), html("table", {}, html("tbody", {}, body)));
    this.node.hidden = false;
    this.anchor = anchor;
    this.place();
    if (byKeyboard) announce([title, ...rows.map((row) => row.join(" "))].join(", "));
  },
  place() {
    if (this.node.hidden) return;
    const [x, y] = this.anchor();
    if (y < 0 || y > window.innerHeight) {
      this.hide();
      return;
    }
    const { width, height } = this.node.getBoundingClientRect();
    const room = document.documentElement.clientWidth;
    const left = x + 16 + width < room ? x + 16 : x - 16 - width;
    const top = Math.max(8, Math.min(y - height / 2, window.innerHeight - height - 8));
    this.node.style.left = `${Math.max(8, Math.min(left, room - width - 8))}px`;
    this.node.style.top = `${top}px`;
  },
  hide() {
    this.node.hidden = true;
  },
};
document.addEventListener("scroll", () => tooltip.place(), { passive: true });
