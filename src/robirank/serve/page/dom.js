// Making elements. Text only ever becomes text nodes, so that no name in the data can be markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (name === "style") {
      for (const [property, v] of Object.entries(value)) node.style.setProperty(property, v);
    } else if (name === "value") {
      node.value = value;
    } else {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...known(children));
  return node;
}

/** Children without those that are nothing. */
function known(children) {
  return children.flat(3).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Put children in the place of those that a node has. */
export function put(node, ...children) {
  node.replaceChildren(...known(children));
}

/** An HTML element with attributes and children. */
export function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element with attributes and children. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A button that does something. */
export function button(label, click, attributes = {}) {
  return html("button", { type: "button", class: "quiet", ...attributes, on: { click } }, label);
}

/** A label above something that can be changed. */
export function field(label, control, ...more) {
  return html("label", { class: "field" }, html("span", {}, label), control, more);
}

/** A heading with a part below it. */
export function part(title, ...children) {
  return html("section", { class: "part" }, html("h2", {}, title), children);
}

/** Say something to those who cannot see it. */
export function announce(text) {
  document.getElementById("live").textContent = text;
}

/** A function that runs when it was not called for some milliseconds. */
export function later(milliseconds, run) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...values), milliseconds);
  };
}

/** Whether things may move. */
export function mayMove() {
  return !window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}

let numbers = 0;

/** An id that no other element has. */
export function newId(name) {
  numbers += 1;
  return `${name}-${numbers}`;
}
