// What mouse, touch and keys do to the map.

const NEAR = 14; // pixels between the pointer and what it means
const STILL = 6; // pixels that a press may move and still be no drag
const STEP = 60; // pixels of an arrow key
const MOVES = { ArrowLeft: [STEP, 0], ArrowRight: [-STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };

/** Let a map be dragged, zoomed and asked, until one leaves it. */
export function steer(map) {
  const { canvas, points, stage, signal } = map;
  const on = (target, event, act, more = {}) => target.addEventListener(event, act, { signal, ...more });
  const held = new Map(); // where pointers are that are down, by id
  let dragged = 0;

  on(canvas, "wheel", (event) => {
    event.preventDefault();
    map.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0018)), event.offsetX, event.offsetY);
  }, { passive: false });
  on(canvas, "dblclick", (event) => map.zoom(2, event.offsetX, event.offsetY));
  on(canvas, "pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    dragged = 0;
  });
  on(canvas, "pointermove", (event) => {
    const before = held.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse") map.hover(points.nearest(event.offsetX, event.offsetY, NEAR));
      return;
    }
    const now = { x: event.offsetX, y: event.offsetY };
    dragged += Math.hypot(now.x - before.x, now.y - before.y);
    const other = [...held].find(([id]) => id !== event.pointerId)?.[1];
    if (other) pinch(points, before, now, other);
    else points.moveBy(now.x - before.x, now.y - before.y);
    held.set(event.pointerId, now);
    map.frame();
  });
  on(canvas, "pointerup", (event) => {
    if (held.size === 1 && dragged < STILL) map.pick(event.offsetX, event.offsetY);
    held.delete(event.pointerId);
  });
  on(canvas, "pointercancel", (event) => held.delete(event.pointerId));
  on(canvas, "pointerleave", () => map.hover(-1));
  on(canvas, "keydown", (event) => {
    const [x, y] = [stage.clientWidth / 2, stage.clientHeight / 2];
    if (event.key in MOVES) points.moveBy(...MOVES[event.key]);
    else if (event.key === "+" || event.key === "=") points.zoomBy(1.4, x, y);
    else if (event.key === "-") points.zoomBy(1 / 1.4, x, y);
    else if (event.key === "0") points.showAll();
    else return;
    event.preventDefault();
    map.frame();
  });
  on(window, "themechange", () => map.paint());
  on(window.matchMedia("(prefers-color-scheme: dark)"), "change", () => map.paint());
  const observer = new ResizeObserver(() => { points.measure(); map.frame(); });
  observer.observe(stage);
  signal.addEventListener("abort", () => observer.disconnect());
}

/** Zoom around one finger as far as the other one moves from it. */
function pinch(points, before, now, other) {
  const apart = (at) => Math.hypot(at.x - other.x, at.y - other.y) || 1;
  points.zoomBy(apart(now) / apart(before), other.x, other.y);
}
