// NDCG@k against k: a line a method, its name at the end of it.

sections.curves = (root) => {
  const figure = byRole(root, "figure");
  const view = { scope: 0, mode: "mean", hidden: new Set(), method: null, k: null };
  const reference = data.methods[data.emphasis].name;
  let drawn = null;

  const curves = () => data.scopes[view.scope].curves;
  const halves = () => (view.mode === "mean" ? "half" : "differenceHalf");
  const visible = () => data.methods
    .map((_, i) => i)
    .filter((i) => !view.hidden.has(i) && curves()[i]?.[view.mode]);

  function draw(width) {
    const methods = visible();
    const narrow = isNarrow();
    const size = narrow ? 13 : 15;
    const valueWidth = narrow ? 0 : textWidth(" −.0000") + 4;
    const names = methods.map((i) => data.methods[i].name);
    const widest = Math.max(40, ...names.map((name) => textWidth(name, 600)));
    const nameWidth = Math.min(widest, narrow ? width * 0.3 : 190);
    const box = {
      left: 42, right: width - nameWidth - valueWidth - 26, top: 12,
      bottom: Math.max(narrow ? 300 : 400, methods.length * size + 20),
    };
    const height = box.bottom + 40;
    const what = view.mode === "mean" ? "NDCG@k" : `NDCG@k less that of ${reference}`;
    const node = chart(width, height, chartLabel(what, methods), {
      tabindex: 0, role: "group", "aria-roledescription": "line chart",
    });
    const all = methods.flatMap((i) => bounds(i));
    const range = rangeOf(all);
    const x = scale([1, Math.max(2, data.kMax)], [box.left + 6, box.right]);
    const y = scale(range, [box.bottom, box.top]);
    node.append(
      ...gridLines(ticks(...range, narrow ? 6 : 10), y, box.left, box.right, yText(range, narrow)),
      ...kAxis(x, box),
    );
    if (view.mode === "difference" && !methods.includes(data.emphasis) && range[0] <= 0 && range[1] >= 0) {
      node.append(svg("line", { class: "zero", x1: box.left, x2: box.right, y1: y(0), y2: y(0) }));
    }
    const guide = svg("line", { class: "guide", y1: box.top, y2: box.bottom, visibility: "hidden" });
    const frame = svg("rect", { x: box.left, y: box.top, width: Math.max(0, box.right - box.left), height: box.bottom - box.top });
    const bands = svg("g", { "clip-path": "url(#curves-frame)" });
    node.append(svg("clipPath", { id: "curves-frame" }, frame), bands, guide);
    const lines = new Map();
    // The method that the page is about lies on top.
    const order = [...methods].sort((a, b) => (a === data.emphasis) - (b === data.emphasis));
    for (const i of order) lines.set(i, drawLine(node, i, x, y));
    drawNames(node, methods, lines, box, y, size, nameWidth);
    drawn = { node, methods, lines, bands, guide, x, y, box };
    node.addEventListener("pointermove", (event) => point(event));
    node.addEventListener("pointerdown", (event) => point(event));
    node.addEventListener("pointerleave", (event) => {
      if (event.pointerType !== "touch") highlight(null, null);
    });
    node.addEventListener("keydown", key);
    node.addEventListener("blur", () => highlight(null, null));
    figure.replaceChildren(node, html("figcaption", {}, caption()));
    highlight(null, null);
  }

  /** All that must fit: the values, and the band of the method that always has one. */
  function bounds(i) {
    const values = curves()[i][view.mode].filter((v) => v !== null);
    if (i !== data.emphasis || view.mode !== "mean") return values;
    return values.concat(curves()[i].mean.flatMap((v, k) => {
      const half = curves()[i].half[k];
      return v === null || half === null ? [] : [v - half, v + half];
    }));
  }

  function yText(range, narrow) {
    const digits = digitsOf(ticks(...range, narrow ? 6 : 10).step);
    return (value) => (view.mode === "mean" ? decimal(value, digits) : signed(value, digits));
  }

  function kAxis(x, box) {
    const room = (box.right - box.left) / data.kMax;
    const step = room >= 22 ? 1 : 5;
    const marks = [];
    for (let k = 1; k <= data.kMax; k += 1) {
      if (k !== 1 && k % step && k !== data.kMax) continue;
      marks.push(svg("text", { x: x(k), y: box.bottom + 18, "text-anchor": "middle" }, String(k)));
    }
    const middle = (box.left + box.right) / 2;
    marks.push(svg("text", { x: middle, y: box.bottom + 36, "text-anchor": "middle" }, "k, the number of documents looked at"));
    marks.push(svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    return marks;
  }

  function drawLine(node, i, x, y) {
    const { colour, dash, emphasis } = look(i);
    const points = curves()[i][view.mode]
      .map((value, k) => (value === null ? null : [x(k + 1), y(value)]))
      .filter((p) => p !== null);
    const line = svg("path", {
      class: `curve${emphasis ? " emphasis" : ""}`, d: path(points), stroke: colour,
      "stroke-dasharray": dash, "data-method": data.methods[i].name,
    });
    node.append(line);
    return { line, points };
  }

  function drawNames(node, methods, lines, box, y, size, nameWidth) {
    const ends = methods
      .map((i) => ({ i, end: lines.get(i).points.at(-1) }))
      .filter(({ end }) => end)
      .sort((a, b) => a.end[1] - b.end[1]);
    const places = spread(ends.map(({ end }) => end[1]), size, box.top, box.bottom);
    ends.forEach(({ i, end }, n) => {
      const { colour, emphasis } = look(i);
      const leader = svg("path", {
        class: "leader", stroke: colour,
        d: path([[end[0] + 3, end[1]], [box.right + 14, places[n]], [box.right + 18, places[n]]]),
      });
      const value = svg("tspan", { class: "value" });
      const name = svg("text", {
        class: `name${emphasis ? " emphasis" : ""}`, x: box.right + 22, y: places[n], dy: "0.35em",
        "data-name": data.methods[i].name,
        on: { pointerenter: () => highlight(i, view.k) },
      }, fitText(data.methods[i].name, nameWidth), value);
      node.append(leader, name);
      Object.assign(lines.get(i), { name, leader, value });
    });
  }

  function drawBand(i) {
    const half = curves()[i][halves()];
    const values = curves()[i][view.mode];
    const { x, y } = drawn;
    const known = values.map((v, k) => k).filter((k) => values[k] !== null && half[k] !== null);
    if (known.length < 2) return null;
    const upper = known.map((k) => [x(k + 1), y(values[k] + half[k])]);
    const lower = known.map((k) => [x(k + 1), y(values[k] - half[k])]).reverse();
    return svg("path", { class: "band", d: `${path([...upper, ...lower])}Z`, fill: look(i).colour });
  }

  /** Bring a method forward, and show what it has at k. */
  function highlight(method, k) {
    if (!drawn) return;
    view.method = method;
    view.k = k;
    const { lines, bands, guide, node, x } = drawn;
    for (const [i, { line, name, leader, value }] of lines) {
      for (const part of [line, name, leader]) {
        part?.classList.toggle("faded", method !== null && i !== method);
        part?.classList.toggle("focus", i === method);
      }
      if (value) {
        const shown = curves()[i][view.mode][(k ?? data.kMax) - 1];
        value.textContent = isNarrow() ? "" : `  ${view.mode === "mean" ? decimal(shown) : signed(shown, 4)}`;
      }
    }
    const shown = method ?? data.emphasis;
    const band = lines.has(shown) ? drawBand(shown) : null;
    bands.replaceChildren(...(band ? [band] : []));
    node.querySelector(".dot")?.remove();
    guide.setAttribute("visibility", k === null ? "hidden" : "visible");
    if (k !== null) {
      guide.setAttribute("x1", x(k));
      guide.setAttribute("x2", x(k));
    }
    if (method === null || k === null) tooltip.hide();
    else showPoint(method, k);
  }

  function showPoint(i, k) {
    const { node, x, y } = drawn;
    const curve = curves()[i];
    const value = curve[view.mode][k - 1];
    if (value === null) return;
    node.append(svg("circle", { class: "dot", cx: x(k), cy: y(value), r: 5, fill: look(i).colour }));
    const place = 1 + drawn.methods.filter((j) => curves()[j].mean[k - 1] > curve.mean[k - 1]).length;
    const rows = [[`NDCG@${k}`, decimal(curve.mean[k - 1])]];
    if (curve.half[k - 1] !== null) {
      const [m, half] = [curve.mean[k - 1], curve.half[k - 1]];
      rows.push(["95 % interval", interval(m - half, m + half)]);
    }
    if (curve.difference && i !== data.emphasis) {
      const [d, half] = [curve.difference[k - 1], curve.differenceHalf[k - 1]];
      rows.push([`less ${reference}`, signed(d, 4)]);
      if (half !== null) rows.push(["paired 95 % interval", interval(d - half, d + half)]);
    }
    rows.push(["place", `${place} of ${drawn.methods.length}`]);
    tooltip.show(() => pointOut(node, x(k), y(value)), data.methods[i].name, rows);
  }

  function point(event) {
    const { node, methods, x, y, box } = drawn;
    const [px, py] = pointIn(node, event);
    if (px > box.right + 12) return;
    const k = Math.max(1, Math.min(data.kMax, Math.round(1 + (px - x(1)) / ((x(2) - x(1)) || 1))));
    const distance = (i) => Math.abs(y(curves()[i][view.mode][k - 1] ?? Infinity) - py);
    const nearest = methods.reduce((best, i) => (best === null || distance(i) < distance(best) ? i : best), null);
    if (nearest !== null) highlight(nearest, k);
  }

  function key(event) {
    const { methods } = drawn;
    if (!methods.length) return;
    const k = view.k ?? Math.min(data.kMax, 10);
    const method = view.method ?? (methods.includes(data.emphasis) ? data.emphasis : methods[0]);
    const ranked = [...methods].sort((a, b) => (curves()[b][view.mode][k - 1] ?? -1) - (curves()[a][view.mode][k - 1] ?? -1));
    const next = (by) => ranked[Math.max(0, Math.min(ranked.length - 1, ranked.indexOf(method) + by))];
    const fresh = view.method === null;
    const moves = {
      ArrowRight: () => highlight(method, fresh ? k : Math.min(data.kMax, k + 1)),
      ArrowLeft: () => highlight(method, fresh ? k : Math.max(1, k - 1)),
      ArrowUp: () => highlight(fresh ? method : next(-1), k),
      ArrowDown: () => highlight(fresh ? method : next(1), k),
      Home: () => highlight(method, 1),
      End: () => highlight(method, data.kMax),
      Escape: () => highlight(null, null),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  }

  function chartLabel(what, methods) {
    return `${what} for k from 1 to ${data.kMax}, ${methods.length} methods, `
      + `${data.scopes[view.scope].name}. Left and right arrow keys change k, up and down the method.`;
  }

  function caption() {
    const { name, queries } = data.scopes[view.scope];
    const over = view.scope === 0 ? `all ${queries.toLocaleString("en")} test queries` : `the ${queries.toLocaleString("en")} test queries of ${name}`;
    const paired = view.mode === "mean" ? "" : " of the paired difference";
    return `Means over ${over}. Band: 95 % confidence interval${paired}, of ${reference} or of the method pointed at.`;
  }

  function drawControls() {
    const comparable = data.scopes.some(({ curves: c }) => c.some((curve) => curve?.difference));
    const controls = [choice("Show", "mode", [
      { value: "mean", text: "NDCG@k" },
      { value: "difference", text: `Difference to ${reference}`, disabled: !comparable },
    ], view.mode, (value) => { view.mode = value; redraw(); })];
    if (data.scopes.length > 1) {
      const options = data.scopes.map(({ name }, i) => ({ value: String(i), text: name }));
      const change = (value) => { view.scope = Number(value); redraw(); drawChips(); };
      controls.push(options.length <= 8 && !isNarrow()
        ? choice("Queries", "scope", options, "0", change)
        : chooser("Queries", options, "0", change));
    }
    byRole(root, "controls").replaceChildren(...controls);
  }

  const chips = data.methods.map(({ name }, i) => html("button", {
    type: "button", class: `chip${i === data.emphasis ? " emphasis" : ""}`, "aria-pressed": "true",
    on: {
      click: () => toggle(i),
      pointerenter: () => highlight(drawn?.lines.has(i) ? i : null, null),
      pointerleave: () => highlight(null, null),
      focus: () => highlight(drawn?.lines.has(i) ? i : null, null),
      blur: () => highlight(null, null),
    },
  }, sample(i), name));

  function toggle(i) {
    if (!view.hidden.delete(i)) view.hidden.add(i);
    drawChips();
    redraw();
    announce(`${data.methods[i].name} ${view.hidden.has(i) ? "hidden" : "shown"}`);
  }

  function showOnly(keep) {
    view.hidden = new Set(data.methods.map((_, i) => i).filter((i) => !keep(i)));
    drawChips();
    redraw();
  }

  function drawChips() {
    chips.forEach((chip, i) => {
      chip.setAttribute("aria-pressed", String(!view.hidden.has(i)));
      chip.disabled = !curves()[i];
      chip.title = curves()[i] ? "" : data.methods[i].note ?? "no results here";
    });
  }

  function best(count) {
    const value = (i) => data.means[i][data.lead] ?? -1;
    const ranked = data.methods.map((_, i) => i).sort((a, b) => value(b) - value(a)).slice(0, count);
    return (i) => i === data.emphasis || ranked.includes(i);
  }

  drawControls();
  const shortcut = (text, keep) => html("button", {
    type: "button", class: "link", on: { click: () => showOnly(keep()) },
  }, text);
  byRole(root, "chips").append(...chips, html("span", { class: "shortcuts" },
    shortcut("All", () => () => true), shortcut("Best five", () => best(5)),
    shortcut(`Only ${reference}`, () => (i) => i === data.emphasis)));
  drawChips();
  const redrawFigure = responsive(figure, draw);
  const values = byRole(root, "values");
  values.addEventListener("toggle", () => { if (values.open) drawValues(); });
  function redraw() {
    redrawFigure();
    if (values.open) drawValues();
  }

  /** The same numbers as text, to read and to copy. */
  function drawValues() {
    const ks = Array.from({ length: data.kMax }, (_, k) => k + 1);
    const head = html("tr", {}, html("th", { scope: "col" }, "k"), ks.map((k) => html("th", { scope: "col" }, String(k))));
    const body = visible().map((i) => html("tr", { class: i === data.emphasis ? "emphasis" : null },
      html("th", { scope: "row" }, data.methods[i].name),
      curves()[i][view.mode].map((v) => html("td", {}, view.mode === "mean" ? decimal(v) : signed(v, 4)))));
    const holder = byRole(root, "values-table");
    fill(holder, { tabindex: 0, role: "region", "aria-label": "All values of the curves" }, []);
    holder.replaceChildren(html("table", { class: "stick" }, html("thead", {}, head), html("tbody", {}, body)));
  }
};
