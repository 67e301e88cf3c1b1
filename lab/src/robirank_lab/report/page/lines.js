// Line charts: each line with its name at its end, or below a narrow chart, to be read with the pointer or with arrow keys.

let charts = 0;
const ROW = 18; // the height of a name below a chart

/**
 * Draw lines into a figure.
 *
 * A line is { id, name, colour, dash, emphasis, x: [...], y: [...], half, rows(n) }: y may have null,
 * half is half the width of a band around it, and rows(n) are the rows of the tooltip of its n-th
 * point. Other options:
 *   title, label        what is shown, and what a screen reader says of it
 *   xLabel, xText, marks, log, xRange   the horizontal axis
 *   yRange, yText, yTicks               the vertical axis
 *   byColumn            the pointer chooses among the points of one x, not the nearest of all
 *   start               which point the arrow keys begin with; the last one by default
 *   levels              [{ value, text, atEnd }]: heights that are marked across the chart
 *   valueText(line, n)  what stands after a name, if anything; n is null if no point is chosen
 *   valueTitle(n)       the heading of these values
 *   onHighlight(id, n)  is told when the reader chooses a line and a point
 *   caption
 *
 * Returns { highlight(id, n), has(id) }; n is null for the whole line, id for none.
 */
function lineChart(figure, width, options) {
  const { lines, title, byColumn = false, valueText, yText = decimal, onHighlight = () => {} } = options;
  const narrow = isNarrow();
  const size = narrow ? 13 : 15;
  const names = Math.max(40, ...lines.map(({ name }) => textWidth(name, 600)));
  const nameWidth = Math.min(names, narrow ? width - 110 : 190);
  const values = valueText ? textWidth(" −.0000") + 4 : 0;
  const top = title || (valueText && !narrow) ? 30 : 12;
  const box = narrow ? { left: 36, right: width - 10, top, bottom: 290 } : {
    left: 42, right: width - nameWidth - values - 46, top,
    bottom: Math.max(380, top + lines.length * size + 8),
  };
  const below = box.bottom + 58; // the first of the names, where the chart is narrow
  const keyAt = narrow ? 0 : box.right + 18;
  const height = narrow ? below + (lines.length + (valueText ? 1 : 0)) * ROW - 4 : box.bottom + 42;
  const node = chart(width, height, options.label, {
    tabindex: 0, role: "group", "aria-roledescription": "line chart",
  });
  const along = (value) => (options.log ? Math.log10(Math.max(value, 1e-9)) : value);
  const xAt = scale(options.xRange.map(along), [box.left + 6, box.right]);
  const x = (value) => xAt(along(value));
  const y = scale(options.yRange, [box.bottom, box.top]);
  const grid = ticks(...options.yRange, narrow ? 6 : 10);
  const guide = svg("line", { class: "guide", y1: box.top, y2: box.bottom, visibility: "hidden" });
  charts += 1;
  const clip = `clip-${charts}`;
  const bands = svg("g", { "clip-path": `url(#${clip})` });
  node.append(
    title ? svg("text", { class: "strong", x: 0, y: 12 }, title) : "",
    ...gridLines(grid, y, box.left, box.right, (value) => yText(value, digitsOf(grid.step))),
    ...xAxis(),
    svg("text", { x: (box.left + box.right) / 2, y: box.bottom + 37, "text-anchor": "middle" }, `${options.xLabel}${options.log ? " (log scale)" : ""}`),
    svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    svg("clipPath", { id: clip }, svg("rect", { x: box.left, y: box.top, width: Math.max(0, box.right - box.left), height: box.bottom - box.top })),
    bands, guide, ...levels());

  // The line that the page is about lies on top.
  const drawn = new Map([...lines].sort((a, b) => a.emphasis - b.emphasis).map((line) => [line.id, drawLine(line)]));
  const heading = svg("text", { x: keyAt + 19, dy: "0.35em" });
  drawNames();
  let [chosen, at] = [null, null];

  /** The numbers below the axis, without those for which there is no room. */
  function xAxis() {
    let free = -Infinity;
    return options.marks.flatMap((mark) => {
      const text = options.xText(mark);
      const half = textWidth(text) / 2;
      if (x(mark) - half < free) return [];
      free = x(mark) + half + 6;
      return [svg("text", { x: x(mark), y: box.bottom + 18, "text-anchor": "middle" }, text)];
    });
  }

  function levels() {
    return (options.levels ?? []).flatMap(({ value, text, atEnd }) => [
      svg("line", { class: "level", x1: box.left, x2: box.right, y1: y(value), y2: y(value) }),
      svg("text", {
        class: "level-name", x: atEnd ? box.right - 6 : box.left + 6, y: y(value) - 6, "text-anchor": atEnd ? "end" : "start",
      }, text),
    ]);
  }

  function drawLine(line) {
    const points = line.x.map((value, n) => (line.y[n] === null ? null : [x(value), y(line.y[n])]));
    const curve = svg("path", {
      class: `curve${line.emphasis ? " emphasis" : ""}`, d: path(points.filter(Boolean)), stroke: line.colour,
      "stroke-dasharray": line.dash ?? "none", "data-method": line.name,
    });
    const [cx, cy] = points.findLast(Boolean);
    const end = svg("circle", { cx, cy, r: line.emphasis ? 4.5 : 3.5, fill: line.colour });
    const parts = byColumn ? [curve] : [curve, end]; // by column, all end at the same x
    node.append(...parts);
    return { line, points, parts };
  }

  function drawNames() {
    const ends = [...drawn.values()].map((entry) => ({ ...entry, end: entry.points.findLast(Boolean) })).sort((a, b) => a.end[1] - b.end[1]);
    const places = narrow ? ends.map((_, n) => below + (n + (valueText ? 1 : 0)) * ROW)
      : spread(ends.map(({ end }) => end[1]), size, box.top, box.bottom);
    if (valueText && ends.length) node.append(fill(heading, { y: places[0] - (narrow ? ROW : size) }, []));
    ends.forEach(({ line, parts, end: [ex, ey] }, n) => {
      const leader = narrow ? "" : svg("path", {
        class: "leader", stroke: line.colour, "stroke-dasharray": byColumn ? "none" : "1 3",
        d: path([[ex + 4, ey], [Math.max(ex + 4, box.right + 4), ey], [box.right + 16, places[n]]]),
      });
      // Where lines end at one height, the way to the name does not tell whose it is; its colour does.
      const key = svg("line", {
        class: "key", x1: keyAt, x2: keyAt + 14, y1: places[n], y2: places[n], stroke: line.colour,
        "stroke-dasharray": line.dash ?? "none", "data-method": line.name,
      });
      const value = svg("tspan", { class: "value" });
      const name = svg("text", {
        class: `name${line.emphasis ? " emphasis" : ""}`, x: keyAt + 19, y: places[n], dy: "0.35em",
        on: { pointerenter: () => choose(line.id, at) },
      }, fitText(line.name, nameWidth), value);
      node.append(leader, key, name);
      parts.push(...[leader, key, name].filter(Boolean));
      drawn.get(line.id).value = value;
    });
  }

  function band({ line, points }) {
    const known = points.map((_, n) => n).filter((n) => points[n] && line.half?.[n] != null);
    if (known.length < 2) return [];
    const edge = (sign) => known.map((n) => [points[n][0], y(line.y[n] + sign * line.half[n])]);
    return [svg("path", { class: "band", d: `${path([...edge(1), ...edge(-1).reverse()])}Z`, fill: line.colour })];
  }

  /** Bring a line forward and mark its n-th point, without a tooltip. */
  function highlight(id, n) {
    [chosen, at] = [id, n];
    for (const { line, parts, value } of drawn.values()) {
      for (const part of parts) {
        part.classList.toggle("faded", id !== null && line.id !== id);
        part.classList.toggle("focus", line.id === id);
      }
      if (valueText) value.textContent = `  ${valueText(line, n)}`;
    }
    if (valueText) heading.textContent = options.valueTitle(n);
    const banded = drawn.get(id) ?? [...drawn.values()].find(({ line }) => line.emphasis);
    bands.replaceChildren(...(banded ? band(banded) : []));
    node.querySelector(".dot")?.remove();
    const point = id === null || n === null ? null : drawn.get(id)?.points[n];
    guide.setAttribute("visibility", point && byColumn ? "visible" : "hidden");
    if (!point) return null;
    fill(guide, { x1: point[0], x2: point[0] }, []);
    node.append(svg("circle", { class: "dot", cx: point[0], cy: point[1], r: 5, fill: drawn.get(id).line.colour }));
    return point;
  }

  /** The reader has chosen a line and a point of it. */
  function choose(id, n) {
    const point = highlight(id, n);
    if (point) tooltip.show(() => pointOut(node, ...point), drawn.get(id).line.name, drawn.get(id).line.rows(n));
    else tooltip.hide();
    onHighlight(id, n);
  }

  function follow(event) {
    const [px, py] = pointIn(node, event);
    if (px > box.right + 12 || py > box.bottom + 24) return;
    let nearest = null;
    for (const { line, points } of drawn.values()) {
      points.forEach((point, n) => {
        if (!point) return;
        const distance = (byColumn ? 1e4 : 1) * (point[0] - px) ** 2 + (point[1] - py) ** 2;
        if (!nearest || distance < nearest.distance) nearest = { id: line.id, n, distance };
      });
    }
    if (nearest) choose(nearest.id, nearest.n);
  }

  function key(event) {
    if (!drawn.size) return;
    const fresh = chosen === null;
    const { line, points } = drawn.get(chosen) ?? [...drawn.values()].at(-1);
    const last = points.length - 1;
    const n = Math.min(at ?? options.start ?? last, last);
    const height = ({ line: { y: heights } }) => heights[Math.min(n, heights.length - 1)] ?? -Infinity;
    const ranked = [...drawn.values()].sort((a, b) => height(b) - height(a)).map((entry) => entry.line.id);
    const place = ranked.indexOf(line.id);
    const other = (by) => ranked[Math.max(0, Math.min(ranked.length - 1, place + by))];
    const moves = {
      ArrowRight: [line.id, fresh ? n : Math.min(last, n + 1)],
      ArrowLeft: [line.id, fresh ? n : Math.max(0, n - 1)],
      ArrowUp: [fresh ? line.id : other(-1), n],
      ArrowDown: [fresh ? line.id : other(1), n],
      Home: [line.id, 0],
      End: [line.id, last],
      Escape: [null, null],
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    const [id, to] = moves[event.key];
    choose(id, id === null ? null : Math.min(to, drawn.get(id).points.length - 1));
  }

  fill(node, { on: {
    pointermove: follow, pointerdown: follow, keydown: key, blur: () => choose(null, null),
    pointerleave: (event) => { if (event.pointerType !== "touch") choose(null, null); },
  } }, []);
  figure.replaceChildren(node, options.caption ? html("figcaption", {}, options.caption) : "");
  highlight(null, null);
  return { highlight, has: (id) => drawn.has(id) };
}

/** Round times within a range of a log scale, a few of them. */
function timeMarks([low, high]) {
  const round = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1200, 3600, 7200, 18000, 36000];
  const within = round.filter((t) => t >= low * 0.999 && t <= high * 1.001);
  const step = Math.ceil(within.length / 7);
  return within.length ? within.filter((_, n) => (within.length - 1 - n) % step === 0) : [low, high];
}

/**
 * Buttons that choose whose lines are shown, at first those of the five best and of the method that
 * the page is about.
 *
 *   usable(i)    whether a method has a line
 *   value(i)     how good it is
 *   always(i)    whether it is shown with the best, however good it is
 *   changed()    is called when others are shown
 *   focus(i)     is told which method is pointed at; null: none
 *
 * Returns { shown(i), refresh() }.
 */
function methodChooser(holder, { usable, value, always = () => false, changed, focus = () => {} }) {
  const all = data.methods.map((_, i) => i);
  const best = all.filter(usable).sort((a, b) => value(b) - value(a)).slice(0, 5);
  const reference = data.methods[data.emphasis].name;
  const choices = {
    All: all,
    "Best five": all.filter((i) => i === data.emphasis || always(i) || best.includes(i)),
    [`Only ${reference}`]: [data.emphasis],
  };
  let shown = new Set(choices["Best five"]);
  const chips = data.methods.map(({ name, note }, i) => html("button", {
    type: "button", class: `chip${i === data.emphasis ? " emphasis" : ""}`,
    title: usable(i) ? "" : note ?? "no results here",
    on: {
      click: () => {
        if (!shown.delete(i)) shown.add(i);
        update();
        announce(`${name} ${shown.has(i) ? "shown" : "hidden"}`);
      },
      pointerenter: () => focus(i), pointerleave: () => focus(null), focus: () => focus(i), blur: () => focus(null),
    },
  }, sample(i), name));
  const shortcuts = Object.entries(choices).map(([words, methods]) => html("button", {
    type: "button", class: "link", on: { click: () => { shown = new Set(methods); update(); } },
  }, words));

  function refresh() {
    chips.forEach((chip, i) => {
      chip.setAttribute("aria-pressed", String(shown.has(i)));
      chip.disabled = !usable(i);
    });
  }

  function update() {
    refresh();
    changed();
  }

  holder.append(...chips, html("span", { class: "shortcuts" }, shortcuts));
  refresh();
  return { shown: (i) => shown.has(i), refresh };
}

/** A table of text, the first column a heading of its row. */
function plainTable(holder, name, heads, rows) {
  fill(holder, { tabindex: 0, role: "region", "aria-label": name }, []);
  holder.replaceChildren(html("table", { class: "stick" },
    html("thead", {}, html("tr", {}, heads.map((text) => html("th", { scope: "col" }, text)))),
    html("tbody", {}, rows.map(([first, ...rest]) => html("tr", {},
      html("th", { scope: "row" }, first), rest.map((text) => html("td", {}, text)))))));
}
