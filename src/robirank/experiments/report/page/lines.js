// A panel of lines, each with its name at its end, for the scaling report.

/**
 * Draw lines into a figure. A line is {name, colour, dash, strong, x: [...], y: [...], rows(n)}, where
 * rows(n) tells the tooltip of its n-th point.
 */
function linePanel(figure, width, { title, label, lines, xText, yText = decimal, log = false }) {
  const narrow = isNarrow();
  const size = narrow ? 13 : 15;
  const widest = Math.max(40, ...lines.map((line) => textWidth(line.name, 600)));
  const box = { left: 42, right: width - widest - 30, top: 30, bottom: narrow ? 270 : 330 };
  const node = chart(width, box.bottom + 42, `${title} against ${label}: ${lines.map((l) => l.name).join(", ")}`);
  const high = Math.max(1e-9, ...lines.flatMap((line) => line.x));
  const top = Math.max(1e-6, ...lines.flatMap((line) => line.y)) * 1.04;
  const low = Math.min(...lines.flatMap((line) => line.x));
  const along = (value) => (log ? Math.log10(value) : value);
  const x10 = scale(log ? [along(low), along(high)] : [0, high], [box.left + 4, box.right]);
  const x = (value) => x10(along(value));
  const y = scale([0, top], [box.bottom, box.top]);
  const marks = log ? powers(low, high) : ticks(0, high, narrow ? 3 : 5).values;
  node.append(svg("text", { class: "strong", x: 0, y: 12 }, title),
    ...gridLines(ticks(0, top, narrow ? 5 : 7), y, box.left, box.right),
    ...marks.map((t) => svg("text", { x: x(t), y: box.bottom + 18, "text-anchor": "middle" }, xText(t))),
    svg("text", { x: (box.left + box.right) / 2, y: box.bottom + 37, "text-anchor": "middle" }, log ? `${label} (log scale)` : label),
    svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  const drawn = lines.map((line) => {
    const points = line.x.map((value, n) => [x(value), y(line.y[n])]);
    node.append(svg("path", {
      class: `curve${line.strong ? " emphasis" : ""}`, d: path(points), stroke: line.colour,
      "stroke-dasharray": line.dash ?? "none", "data-line": line.name,
    }));
    return { line, points };
  });
  const ends = [...drawn].sort((a, b) => a.points.at(-1)[1] - b.points.at(-1)[1]);
  const places = spread(ends.map(({ points }) => points.at(-1)[1]), size, box.top, box.bottom);
  ends.forEach(({ line, points }, n) => {
    const [ex, ey] = points.at(-1);
    node.append(
      svg("circle", { cx: ex, cy: ey, r: 3.5, fill: line.colour }),
      svg("path", { class: "leader", stroke: line.colour, "stroke-dasharray": "1 3",
        d: path([[ex + 5, ey], [Math.max(ex + 5, box.right + 4), ey], [box.right + 16, places[n]]]) }),
      svg("text", { class: "name", x: box.right + 20, y: places[n], dy: "0.35em" }, line.name));
  });
  node.addEventListener("pointermove", (event) => {
    const [px, py] = pointIn(node, event);
    let nearest = null;
    for (const { line, points } of drawn) {
      points.forEach(([cx, cy], n) => {
        const distance = Math.hypot(cx - px, cy - py);
        if (!nearest || distance < nearest.distance) nearest = { line, n, distance, cx, cy };
      });
    }
    node.querySelector(".dot")?.remove();
    if (!nearest || px > box.right + 14) {
      tooltip.hide();
      return;
    }
    node.append(svg("circle", { class: "dot", cx: nearest.cx, cy: nearest.cy, r: 5, fill: nearest.line.colour }));
    tooltip.show(() => pointOut(node, nearest.cx, nearest.cy), nearest.line.name,
      [[title, yText(nearest.line.y[nearest.n])], ...nearest.line.rows(nearest.n)]);
  });
  node.addEventListener("pointerleave", () => { node.querySelector(".dot")?.remove(); tooltip.hide(); });
  figure.replaceChildren(node);
}

/** The powers of ten in a range, or both ends where there is none. */
function powers(low, high) {
  const found = [];
  for (let power = Math.ceil(Math.log10(low)); 10 ** power <= high; power += 1) found.push(10 ** power);
  return found.length ? found : [low, high];
}

/** A table of text, the first column a heading of its row. */
function plainTable(holder, name, heads, rows) {
  fill(holder, { tabindex: 0, role: "region", "aria-label": name }, []);
  holder.replaceChildren(html("table", { class: "stick" },
    html("thead", {}, html("tr", {}, heads.map((text) => html("th", { scope: "col" }, text)))),
    html("tbody", {}, rows.map(([first, ...rest]) => html("tr", {},
      html("th", { scope: "row" }, first), rest.map((text) => html("td", {}, text)))))));
}
