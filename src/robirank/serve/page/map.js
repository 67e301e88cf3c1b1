// The map of items: zoom, pan, search, colours by attribute, and what lies where, as text too.

import { get, post } from "./api.js";
import { announce, button, field, html, later, put } from "./dom.js";
import { findItems, like } from "./panel.js";
import { Points, pixelOf } from "./points.js";
import { problemBox } from "./recommend.js";
import { searchBox } from "./search.js";
import { steer } from "./steering.js";
import { address, nameOf, remember, session } from "./session.js";
import { called, count, counted, percent } from "./text.js";

const LABELS = 40;
const CELL = 110; // pixels: the width of a part of the map that has one name
const LISTED = 20;
const RANGES = 7;
const FINGER = 28; // pixels between a press and what it means
const SORTS = {
  directions: (told) => `The two directions in which the items differ most; they hold ${percent(told.share)} of the spread.`,
  neighbours: () => "Items that are alike lie together (t-SNE); distances between far items mean little.",
};

/** Show the map, with an item marked if one is named. */
export function show(root, id, signal) {
  root.append(html("h1", { class: "unseen" }, "Map of items"));
  const load = async () => {
    const waiting = html("p", { class: "empty" }, "Drawing the map …");
    root.append(waiting);
    try {
      const told = await get("map", undefined, signal);
      waiting.remove();
      new ItemMap(root, told, signal).start(id);
    } catch (error) {
      waiting.remove();
      if (error.name !== "AbortError") root.append(problemBox(error, () => { root.lastChild.remove(); load(); }));
    }
  };
  load();
}

class ItemMap {
  constructor(root, told, signal) {
    this.told = told;
    this.signal = signal;
    this.marked = -1;
    this.hovered = -1;
    this.places = new Map(); // what is known of items, by position
    this.frames = [];
    this.canvas = html("canvas", {
      class: "points", tabindex: "0", role: "application", "aria-roledescription": "map",
      "aria-label": `Map of ${counted(told.x.length, "item")}. Arrow keys move, plus and minus zoom, 0 shows all; the items in view are listed beside it.`,
    });
    this.over = html("canvas", { class: "over", "aria-hidden": "true" });
    this.stage = html("div", { class: "stage" }, this.canvas, this.over, this.buttons());
    this.card = html("div", { class: "card" });
    this.legend = html("div", { class: "groups" });
    this.list = html("div", { class: "inview" });
    const search = searchBox({ label: "Find an item on the map", hint: "Find an item", find: findItems, choose: (value) => this.goTo(value.item) });
    root.append(html("div", { class: "atlas" }, this.stage,
      html("aside", { class: "panel", "aria-label": "About the map" }, search, this.card, this.chooser(), this.legend, this.list,
        html("p", { class: "small" }, SORTS[told.kind](told)))));
    const taken = told.taken ?? new Array(told.x.length).fill(0);
    this.byTaken = Uint32Array.from(taken.keys()).sort((a, b) => taken[b] - taken[a]);
    this.points = new Points(this.canvas, told.x, told.y, Uint32Array.from(this.byTaken).reverse());
    this.rest = later(140, () => this.settle());
  }

  start(id) {
    steer(this);
    this.colourByTaken();
    this.frame();
    if (id) this.goTo(id);
  }

  buttons() {
    const make = (text, label, act) => button(text, act, { "aria-label": label, title: label });
    const middle = (factor) => () => this.zoom(factor, this.stage.clientWidth / 2, this.stage.clientHeight / 2);
    return html("div", { class: "zoom" }, make("+", "Zoom in", middle(1.6)), make("−", "Zoom out", middle(1 / 1.6)), make("⤢", "Show all", () => this.all()));
  }

  chooser() {
    const hasTaken = this.told.taken !== undefined;
    const select = html("select", { on: { change: () => (select.value ? this.colourBy(select.value) : this.colourByTaken()) } },
      html("option", { value: "" }, hasTaken ? "how often taken" : "nothing"),
      (this.told.columns ?? []).map((column) => html("option", { value: column }, column)));
    return field("Colours", select);
  }

  /* Colours. */

  colourByTaken() {
    const { taken } = this.told;
    if (!taken) {
      this.setGroups("", ["item"], [taken?.length ?? this.told.x.length], new Int8Array(this.told.x.length), false);
      return;
    }
    const top = Math.log1p(Math.max(1, ...this.byTaken.slice(0, 1).map((place) => taken[place])));
    const bounds = Array.from({ length: RANGES }, (_, k) => Math.round(Math.expm1((top * (k + 1)) / RANGES)));
    const groups = Int8Array.from(taken, (number) => (number === 0 ? -1 : Math.max(0, bounds.findIndex((bound) => number <= bound))));
    const counts = bounds.map((_, k) => groups.reduce((sum, group) => sum + (group === k), 0));
    const labels = bounds.map((bound, k) => {
      const low = k ? bounds[k - 1] + 1 : 1;
      return low < bound ? `${count(low)} – ${count(bound)}` : count(bound);
    });
    this.setGroups("Taken", labels, counts, groups, true, "never: new");
  }

  async colourBy(column) {
    try {
      const told = await get("map/groups", { column }, this.signal);
      this.setGroups(column, told.labels, told.counts, told.groups, told.kind === "ranges");
    } catch (error) {
      if (error.name !== "AbortError") put(this.legend, html("p", { class: "small" }, error.message));
    }
  }

  setGroups(title, labels, counts, groups, isOrdered, others = "other or none") {
    const last = labels.length;
    this.points.groups = Uint8Array.from(groups, (group) => (group < 0 ? last : group));
    this.points.shown = new Array(last + 1).fill(true);
    this.colours = [...labels.map((_, k) => (isOrdered ? `var(--r${Math.round((6 * k) / Math.max(1, last - 1))})` : `var(--m${k})`)), "var(--other)"];
    const rest = this.told.x.length - counts.reduce((sum, number) => sum + number, 0);
    const line = (label, number, k) => (number === 0 ? null : html("li", {}, html("label", {}, this.toggle(k),
      html("i", { class: "swatch", style: { background: this.colours[k] } }), html("span", {}, label), html("small", {}, count(number)))));
    put(this.legend, html("h2", {}, title || "Items"),
      html("ul", {}, labels.map((label, k) => line(label, counts[k], k)), line(others, rest, last)));
    this.paint();
  }

  toggle(k) {
    const box = html("input", { type: "checkbox", on: { change: () => { this.points.shown[k] = box.checked; this.frame(); } } });
    box.checked = true;
    return box;
  }

  /** Take the colours that hold now, light or dark. */
  paint() {
    const probe = html("i", {});
    this.stage.append(probe);
    const now = (colour) => { probe.style.color = colour; return getComputedStyle(probe).color; };
    this.points.palette = Uint32Array.from(this.colours, (colour) => pixelOf(now(colour)));
    this.points.paper = pixelOf(now("var(--sheet)"));
    this.ink = { text: now("var(--ink)"), halo: now("var(--sheet)"), mark: now("var(--accent)") };
    probe.remove();
    this.frame();
  }

  /* Drawing. */

  /** Draw soon, once however often it is asked for. */
  frame() {
    this.rest();
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      const begin = performance.now();
      this.points.draw();
      this.drawOver();
      this.frames.push(performance.now() - begin);
      if (this.frames.length > 600) this.frames.shift();
      this.stage.dataset.frame = this.frames.at(-1).toFixed(2);
    });
  }

  drawOver() {
    const { width, height } = this.canvas;
    if (this.over.width !== width || this.over.height !== height) Object.assign(this.over, { width, height });
    const context = this.over.getContext("2d");
    const { density } = this.points;
    context.setTransform(density, 0, 0, density, 0, 0);
    context.clearRect(0, 0, width, height);
    const boxes = []; // where names are already
    for (const index of [this.hovered, this.marked]) if (index >= 0) this.drawMark(context, index, boxes);
    for (const index of this.named ?? []) this.drawLabel(context, index, boxes, 12);
  }

  drawMark(context, index, boxes) {
    const [left, top] = this.points.onScreen(index);
    context.beginPath();
    context.arc(left, top, 7, 0, 2 * Math.PI);
    context.lineWidth = 2.5;
    context.strokeStyle = this.ink.mark;
    context.stroke();
    this.drawLabel(context, index, boxes, 14, 600);
  }

  /** Write a name beside its point, unless another one is there. */
  drawLabel(context, index, boxes, size, weight = 500) {
    const known = this.places.get(index);
    if (!known || !this.points.isShown(index)) return;
    const text = shortened(called(known));
    const [left, top] = this.points.onScreen(index);
    context.font = `${weight} ${size}px system-ui, sans-serif`;
    const width = context.measureText(text).width;
    if (width + 12 > this.stage.clientWidth) return;
    const begin = left + 9 + width < this.stage.clientWidth ? left + 9 : left - 9 - width;
    const box = { left: begin - 2, top: top - size / 2 - 2, right: begin + width + 2, bottom: top + size / 2 + 2 };
    if (begin < 2 || boxes.some((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom)) return;
    boxes.push(box);
    context.lineJoin = "round";
    context.lineWidth = 4;
    context.strokeStyle = this.ink.halo;
    context.fillStyle = this.ink.text;
    context.textBaseline = "middle";
    context.strokeText(text, begin, top);
    context.fillText(text, begin, top);
  }

  /** When the map rests: the names of what is in view, on it and as a list. */
  async settle() {
    const { listed, named, number } = this.inView();
    try {
      await this.learn([...listed, ...named]);
    } catch {
      return; // one is leaving, or the server is gone: the map works without names
    }
    this.named = named;
    this.drawOver();
    const links = listed.map((index) => this.places.get(index)).filter(Boolean);
    put(this.list, html("h2", {}, `In view: ${count(number)} of ${counted(this.told.x.length, "item")}`),
      html("ul", { class: "plain" }, links.map((one) => html("li", {},
        html("button", { type: "button", class: "link", on: { click: () => this.goTo(String(one.item)) } }, called(one))))));
  }

  /** Of what is in view: how much, what is taken most, and what is taken most in each part of the map. */
  inView() {
    const [listed, named, cells] = [[], [], new Set()];
    let number = 0;
    for (const index of this.byTaken) {
      if (!this.points.isShown(index) || !this.points.isInside(index)) continue;
      number += 1;
      if (listed.length < LISTED) listed.push(index);
      if (named.length >= LABELS) continue;
      const [left, top] = this.points.onScreen(index);
      const cell = `${Math.floor(left / CELL)} ${Math.floor((2 * top) / CELL)}`;
      if (!cells.has(cell)) named.push(index);
      cells.add(cell);
    }
    return { listed, named, number };
  }

  async learn(indices) {
    const unknown = indices.filter((index) => !this.places.has(index));
    if (!unknown.length) return;
    const { items } = await post("places", { positions: unknown }, this.signal);
    remember(items);
    for (const one of items) this.places.set(one.position, one);
  }

  /* Moving; what mouse, touch and keys do is in steering.js. */

  zoom(factor, left, top) {
    this.points.zoomBy(factor, left, top);
    this.frame();
  }

  all() {
    this.points.showAll();
    this.frame();
  }

  async hover(index) {
    if (index === this.hovered) return;
    this.hovered = index;
    this.canvas.classList.toggle("hit", index >= 0);
    await this.learn(index >= 0 ? [index] : []).catch(() => {});
    this.drawOver();
  }

  pick(left, top) {
    const index = this.points.nearest(left, top, FINGER);
    if (index >= 0) this.mark(index);
  }

  /** Mark an item, and show it large. */
  async goTo(id) {
    const { items } = await post("places", { items: [id] }, this.signal).catch(() => ({ items: [] }));
    if (!items.length) {
      announce(`There is no item ${id}`);
      return;
    }
    const { position } = items[0];
    this.places.set(position, items[0]);
    this.points.view = { x: this.points.x[position], y: this.points.y[position], zoom: Math.max(6, this.points.view.zoom) };
    this.mark(position);
  }

  async mark(index) {
    this.marked = index;
    await this.learn([index]).catch(() => {});
    const one = this.places.get(index);
    if (!one) return;
    const id = String(one.item);
    put(this.card, html("h2", {}, called(one)),
      html("p", { class: "small" }, one.new ? html("span", { class: "badge" }, "new") : one.taken === undefined ? "" : `taken ${counted(one.taken, "time")}`),
      html("p", { class: "row" }, html("a", { class: "quiet", href: address("item", id) }, "Look at it"),
        button(session.taste.items.includes(id) ? "In the taste" : "Add to the taste", (event) => {
          like(id);
          event.target.textContent = "In the taste";
        })));
    announce(nameOf(id));
    this.frame();
  }
}

function shortened(text) {
  return text.length > 34 ? `${text.slice(0, 32)}…` : text;
}
