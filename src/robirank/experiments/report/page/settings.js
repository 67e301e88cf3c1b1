// What was tried on the validation queries, and what was chosen.

sections.settings = (root) => {
  const searched = data.methods.map((_, i) => i).filter((i) => data.fits.some((fit) => fit.method === i && fit.grid.length));
  const figure = byRole(root, "figure");
  if (!searched.length) {
    byRole(root, "lede").textContent = "No method of this run was searched over a grid of settings.";
    return;
  }
  const view = { method: searched.includes(data.emphasis) ? data.emphasis : searched[0], all: false };

  const fits = () => data.fits.filter((fit) => fit.method === view.method && fit.grid.length);

  /** The settings of a method's grid, in the order in which they were tried first. */
  function grid() {
    const found = new Map();
    for (const fit of fits()) {
      for (const point of fit.grid) {
        const id = JSON.stringify(point.params);
        if (!found.has(id)) found.set(id, { params: point.params, at: [] });
        if (point.validation !== null) {
          const chosen = JSON.stringify(fit.params) === id || sameSetting(fit.params, point.params);
          found.get(id).at.push({ fold: fit.case, value: point.validation, chosen });
        }
      }
    }
    return [...found.values()];
  }

  function sameSetting(a, b) {
    return Object.keys(b).length > 0 && Object.entries(b).every(([key, value]) => JSON.stringify(a[key]) === JSON.stringify(value));
  }

  /** The only parameter that changes, if it is a number; a curve over it says more than rows. */
  function onlyNumber(points) {
    const names = [...new Set(points.flatMap(({ params }) => Object.keys(params)))];
    const moving = names.filter((name) => new Set(points.map(({ params }) => JSON.stringify(params[name]))).size > 1);
    const [name] = moving;
    const fine = moving.length === 1 && points.length > 2 && points.every(({ params }) => typeof params[name] === "number");
    return fine ? name : null;
  }

  function draw(width) {
    const points = grid();
    const name = onlyNumber(points);
    if (name) drawCurve(points, name, width);
    else drawRows(points, width);
    byRole(root, "lede").textContent = summary();
  }

  function summary() {
    const part = data.kind === "latent" ? "part" : "queries";
    const known = fits().map((fit) => fit.validation).filter((v) => v !== null);
    const mean = known.length ? sum(known) / known.length : null;
    const test = data.means[view.method][data.select];
    const measure = measureName(data.select);
    const first = `${data.methods[view.method].name}: ${measure} of the chosen settings is ${decimal(mean)} on the validation ${part}`;
    return test === undefined ? `${first}.` : `${first} and ${decimal(test)} on the test ${part}.`;
  }

  function drawCurve(points, name, width) {
    const sorted = [...points].sort((p, q) => p.params[name] - q.params[name]);
    const xs = sorted.map(({ params }) => params[name]);
    const log = xs[0] > 0 && xs.at(-1) / xs[0] >= 20;
    const at = (value) => (log ? Math.log10(value) : value);
    const narrow = isNarrow();
    const height = narrow ? 260 : 300;
    const box = { left: 44, right: width - (narrow ? 20 : 30), top: 24, bottom: height - 44 };
    const x = scale([at(xs[0]), at(xs.at(-1))], [box.left + 16, box.right - 10]);
    const values = sorted.flatMap(({ at: tried }) => tried.map(({ value }) => value));
    const range = rangeOf(values, 0.08);
    const y = scale(range, [box.bottom, box.top]);
    const { colour } = look(view.method);
    const node = chart(width, height, `Validation measure of ${data.methods[view.method].name} for each ${name}, a line a fold`);
    node.append(...gridLines(ticks(...range, 5), y, box.left, box.right),
      svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    let last = -Infinity;
    for (const value of xs) {
      const text = short(value);
      const middle = x(at(value));
      if (middle - textWidth(text) / 2 > last + 8) {
        node.append(svg("text", { x: middle, y: box.bottom + 18, "text-anchor": "middle" }, text));
        last = middle + textWidth(text) / 2;
      }
    }
    node.append(svg("text", { x: (box.left + box.right) / 2, y: box.bottom + 38, "text-anchor": "middle" }, `${name}${log ? " (log scale)" : ""}`));
    const place = (fold) => sorted.flatMap(({ params, at: tried }) => tried.filter((t) => t.fold === fold).map((t) => ({ ...t, params, x: x(at(params[name])), y: y(t.value) })));
    const folds = [...new Set(fits().map((fit) => fit.case))];
    for (const fold of folds) {
      node.append(svg("path", { class: "curve", d: path(place(fold).map((p) => [p.x, p.y])), stroke: colour, opacity: 0.35 }));
    }
    if (folds.length > 1) node.append(svg("path", { class: "curve emphasis", d: path(meanCurve(sorted, folds, (v) => x(at(v)), y, name)), stroke: colour }));
    const dots = folds.flatMap(place).sort((p, q) => p.chosen - q.chosen);
    for (const p of dots) node.append(dot(p, p.x, p.y, colour));
    for (const { params, at: tried } of sorted) {
      const chosen = tried.filter((t) => t.chosen).length;
      if (!chosen || folds.length < 2) continue;
      node.append(svg("text", { class: "strong", x: x(at(params[name])), y: 12, "text-anchor": "middle" }, `chosen ${chosen} of ${folds.length}`));
    }
    figure.replaceChildren(node, caption(folds.length > 1 ? " Thin lines: folds; thick line: their mean." : ""));
  }

  function meanCurve(sorted, folds, x, y, name) {
    return sorted.filter(({ at }) => at.length === folds.length)
      .map(({ params, at }) => [x(params[name]), y(sum(at.map((t) => t.value)) / at.length)]);
  }

  /** One tried setting on one fold. */
  function dot({ fold, value, chosen, params }, cx, cy, colour) {
    const show = () => {
      const node = circle.ownerSVGElement;
      tooltip.show(() => pointOut(node, cx, cy), setting(params), [[foldName(), data.cases[fold]], ["validation", decimal(value)], ...(chosen ? [["", "chosen"]] : [])]);
    };
    const circle = svg("circle", {
      cx, cy, r: chosen ? 5.5 : 3.5, fill: chosen ? colour : "var(--paper)",
      stroke: chosen ? "var(--paper)" : colour, "stroke-width": 1.4,
      tabindex: chosen ? 0 : null, role: chosen ? "img" : null,
      "aria-label": chosen ? `${data.cases[fold]}: ${setting(params)}, validation ${decimal(value)}, chosen` : null,
      on: { pointerenter: show, pointerleave: () => tooltip.hide() },
    });
    // A listener for the focus would put every dot in the way of Tab.
    if (chosen) fill(circle, { on: { focus: show, blur: () => tooltip.hide() } }, []);
    return circle;
  }

  /** Settings of several parameters: a row each, the best mean first. */
  function drawRows(points, width) {
    const mean = ({ at }) => (at.length ? sum(at.map((t) => t.value)) / at.length : -Infinity);
    const ranked = [...points].sort((p, q) => mean(q) - mean(p));
    const most = 14;
    const rows = view.all ? ranked : ranked.slice(0, most);
    const narrow = isNarrow();
    const rowHeight = narrow ? 38 : 24;
    const widest = Math.max(...rows.map(({ params }) => textWidth(setting(params))));
    const left = narrow ? 8 : Math.min(widest, width * 0.45) + 14;
    const box = { left, right: width - 14, top: 4, bottom: 4 + rows.length * rowHeight };
    const values = rows.flatMap(({ at }) => at.map(({ value }) => value));
    const range = rangeOf(values);
    const x = scale(range, [box.left + 8, box.right]);
    const { colour } = look(view.method);
    const node = chart(width, box.bottom + 26, `Validation measure of ${data.methods[view.method].name} for each setting, a dot a fold`);
    const marks = ticks(...range, narrow ? 4 : 6);
    for (const value of marks.values) {
      node.append(svg("line", { class: "grid", x1: x(value), x2: x(value), y1: box.top, y2: box.bottom }),
        svg("text", { x: x(value), y: box.bottom + 18, "text-anchor": "middle" }, decimal(value, digitsOf(marks.step))));
    }
    rows.forEach((row, n) => {
      const middle = box.top + (n + (narrow ? 0.72 : 0.5)) * rowHeight;
      const text = fitText(setting(row.params), narrow ? width - 16 : left - 14);
      node.append(narrow
        ? svg("text", { class: "strong", x: 0, y: middle - 14 }, text)
        : svg("text", { class: "strong", x: left - 12, y: middle, dy: "0.35em", "text-anchor": "end" }, text));
      const at = [...row.at].sort((p, q) => p.chosen - q.chosen);
      if (at.length) {
        node.append(svg("line", { x1: x(mean(row)), x2: x(mean(row)), y1: middle - 8, y2: middle + 8, stroke: colour, "stroke-width": 2.5 }));
      }
      for (const t of at) node.append(dot({ ...t, params: row.params }, x(t.value), middle, colour));
    });
    const more = ranked.length > most ? html("button", {
      type: "button", class: "quiet", on: { click: () => { view.all = !view.all; redraw(); figure.querySelector("button")?.focus(); } },
    }, view.all ? `Only the best ${most}` : `All ${ranked.length} settings`) : null;
    figure.replaceChildren(...[node, caption(" One dot a fold; the stroke is their mean. The best mean is on top."), more].filter(Boolean));
  }

  function caption(text) {
    return html("figcaption", {}, `Filled dots are the settings that were chosen.${text}`);
  }

  byRole(root, "controls").append(chooser("Method",
    searched.map((i) => ({ value: String(i), text: data.methods[i].name })), String(view.method),
    (value) => { view.method = Number(value); view.all = false; redraw(); }));
  const redraw = responsive(figure, draw);
};
