// Many points on a canvas. Each frame writes the pixels of every point itself: for 100,000 points that
// takes a few milliseconds on any machine, and no graphics card is needed.

const UNIT = 65535; // the coordinates of the server

/** Draws points, and finds the nearest one. */
export class Points {
  constructor(canvas, x, y, order) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.x = Float32Array.from(x, (value) => value / UNIT);
    this.y = Float32Array.from(y, (value) => value / UNIT);
    this.order = order;
    this.groups = new Uint8Array(x.length);
    this.shown = [];
    this.palette = new Uint32Array(1);
    this.paper = 0;
    this.middle = [middleOf(this.x), middleOf(this.y)];
    this.measure();
    this.showAll();
  }

  /** Look at all points. */
  showAll() {
    const [[x, width], [y, height]] = this.middle;
    const { width: columns, height: rows } = this.canvas;
    const fits = Math.min(columns / Math.max(width, 0.01), rows / Math.max(height, 0.01)) / Math.min(columns, rows);
    this.view = { x, y, zoom: Math.min(4, fits) };
  }

  /** Take the size of the canvas as it is on the screen. */
  measure() {
    const { width, height } = this.canvas.getBoundingClientRect();
    const density = Math.min(2, window.devicePixelRatio || 1);
    this.density = density;
    this.canvas.width = Math.max(1, Math.round(width * density));
    this.canvas.height = Math.max(1, Math.round(height * density));
    this.image = this.context.createImageData(this.canvas.width, this.canvas.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  /** Pixels of the canvas for the width of the map. */
  get scale() {
    return 0.94 * Math.min(this.canvas.width, this.canvas.height) * this.view.zoom;
  }

  /** Where a point of the map is on the screen, in CSS pixels of the canvas. */
  onScreen(index) {
    return [
      ((this.x[index] - this.view.x) * this.scale + this.canvas.width / 2) / this.density,
      ((this.view.y - this.y[index]) * this.scale + this.canvas.height / 2) / this.density,
    ];
  }

  /** The point of the map at a place of the screen. */
  onMap(left, top) {
    return [
      (left * this.density - this.canvas.width / 2) / this.scale + this.view.x,
      this.view.y - (top * this.density - this.canvas.height / 2) / this.scale,
    ];
  }

  /** The radius of a point in pixels of the canvas: what leaves paper between them. */
  get radius() {
    const room = Math.sqrt((this.canvas.width * this.canvas.height) / Math.max(1, this.x.length));
    return Math.max(0.75, Math.min(4.5, 0.22 * room * Math.sqrt(this.view.zoom))) * this.density;
  }

  /** Draw all points. */
  draw() {
    const { pixels, x, y, order, groups, shown, palette } = this;
    const { width, height } = this.canvas;
    pixels.fill(this.paper);
    const stamp = discOf(this.radius);
    const reach = stamp.reach;
    const scale = this.scale;
    const left = width / 2 - this.view.x * scale;
    const top = height / 2 + this.view.y * scale;
    const offsets = stamp.rows.map((row, place) => row * width + stamp.columns[place]);
    const { weights } = stamp;
    const many = weights.length;
    for (let k = 0; k < order.length; k += 1) {
      const i = order[k];
      const column = Math.round(x[i] * scale + left);
      const row = Math.round(top - y[i] * scale);
      if (column < reach || row < reach || column >= width - reach || row >= height - reach) continue;
      const group = groups[i];
      if (shown.length && !shown[group]) continue;
      const colour = palette[group];
      const redBlue = colour & 0xff00ff;
      const green = colour & 0x00ff00;
      const middle = row * width + column;
      for (let p = 0; p < many; p += 1) {
        const at = middle + offsets[p];
        const under = pixels[at];
        const weight = weights[p];
        // Red and blue are mixed in one product, green in another; the top byte is opaque.
        const rb = ((redBlue * weight + (under & 0xff00ff) * (256 - weight)) >>> 8) & 0xff00ff;
        const g = ((green * weight + (under & 0x00ff00) * (256 - weight)) >>> 8) & 0x00ff00;
        pixels[at] = (0xff000000 | rb | g) >>> 0;
      }
    }
    this.context.putImageData(this.image, 0, 0);
  }

  /** The point nearest to a place of the screen, within some pixels; -1 for none. */
  nearest(left, top, most) {
    const [mapX, mapY] = this.onMap(left, top);
    let best = -1;
    let least = ((most * this.density) / this.scale) ** 2;
    for (let i = 0; i < this.x.length; i += 1) {
      const distance = (this.x[i] - mapX) ** 2 + (this.y[i] - mapY) ** 2;
      if (distance <= least && this.isShown(i)) {
        least = distance;
        best = i;
      }
    }
    return best;
  }

  isShown(index) {
    return !this.shown.length || this.shown[this.groups[index]];
  }

  /** Whether a point is on the screen. */
  isInside(index) {
    const [left, top] = this.onScreen(index);
    return left >= 0 && top >= 0 && left * this.density < this.canvas.width && top * this.density < this.canvas.height;
  }

  /** Zoom by a factor around a place of the screen. */
  zoomBy(factor, left, top) {
    const [x, y] = this.onMap(left, top);
    const zoom = Math.max(0.5, Math.min(400, this.view.zoom * factor));
    const kept = this.view.zoom / zoom;
    this.view = { zoom, x: x + (this.view.x - x) * kept, y: y + (this.view.y - y) * kept };
  }

  /** Move by some pixels of the screen. */
  moveBy(dx, dy) {
    this.view.x -= (dx * this.density) / this.scale;
    this.view.y += (dy * this.density) / this.scale;
  }
}

/** The middle of some numbers, and how far apart they are. */
function middleOf(numbers) {
  let [low, high] = [1, 0];
  for (const number of numbers) {
    low = Math.min(low, number);
    high = Math.max(high, number);
  }
  return numbers.length ? [(low + high) / 2, high - low] : [0.5, 1];
}

/** The pixels of a disc, and how much of each it covers, from 0 to 256. */
function discOf(radius) {
  const reach = Math.ceil(radius);
  const [rows, columns, weights] = [[], [], []];
  for (let row = -reach; row <= reach; row += 1) {
    for (let column = -reach; column <= reach; column += 1) {
      const cover = Math.max(0, Math.min(1, radius + 0.5 - Math.hypot(row, column)));
      if (cover > 0.02) {
        rows.push(row);
        columns.push(column);
        weights.push(Math.round(256 * 0.82 * cover));
      }
    }
  }
  return { reach, rows, columns, weights: Uint16Array.from(weights) };
}

/** A colour of CSS as a number whose bytes are those of a pixel. */
export function pixelOf(css) {
  const canvas = document.createElement("canvas");
  canvas.width = 1;
  canvas.height = 1;
  const context = canvas.getContext("2d");
  context.fillStyle = css;
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
