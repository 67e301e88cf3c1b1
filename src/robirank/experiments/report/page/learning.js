// Measures on the test part against seconds of training: the paper's figure, a panel a measure.

sections.learning = (root) => {
  const view = { log: true, hidden: new Set(), pair: 0, method: null, at: null };
  const pairs = [["precision@1", "precision@10"], ["recall@20", "ndcg@20"]];
  const holders = [html("figure"), html("figure")];
  const drawn = [null, null];

  const visible = () => data.methods.map((_, i) => i).filter((i) => data.learning[i] && !view.hidden.has(i));
  const measure = (panel) => pairs[view.pair][panel];
  const along = (seconds) => (view.log ? Math.log10(Math.max(seconds, 1e-3)) : seconds);

  function draw(panel, width) {
    const methods = visible();
    const narrow = isNarrow();
    const size = narrow ? 13 : 15;
    const widest = Math.max(40, ...methods.map((i) => textWidth(data.methods[i].name, 600)));
    const box = { left: 40, right: width - widest - 30, top: 30, bottom: narrow ? 270 : 340 };
    const node = chart(width, box.bottom + 42, label(panel, methods), {
      tabindex: 0, role: "group", "aria-roledescription": "line chart",
    });
    const times = methods.flatMap((i) => data.learning[i].seconds);
    const ends = [Math.min(...times), Math.max(...times)];
    const x = scale(view.log ? ends.map(along) : [0, ends[1]], [box.left + 8, box.right]);
    const values = methods.flatMap((i) => data.learning[i].values[measure(panel)]);
    const range = [0, Math.max(1e-6, ...values) * 1.04];
    const y = scale(range, [box.bottom, box.top]);
    node.append(svg("text", { class: "strong", x: 0, y: 12 }, measureName(measure(panel))),
      ...gridLines(ticks(...range, narrow ? 5 : 7), y, box.left, box.right),
      ...timeAxis(ends, x, box));
    const lines = new Map();
    const order = [...methods].sort((a, b) => (a === data.emphasis) - (b === data.emphasis));
    for (const i of order) lines.set(i, drawLine(node, i, panel, x, y));
    drawNames(node, lines, box, size);
    drawn[panel] = { node, methods, lines, x, y, box };
    node.addEventListener("pointermove", (event) => point(panel, event));
    node.addEventListener("pointerdown", (event) => point(panel, event));
    node.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") highlight(null, null, panel); });
    node.addEventListener("keydown", (event) => key(panel, event));
    node.addEventListener("blur", () => highlight(null, null, panel));
    holders[panel].replaceChildren(node);
  }

  function label(panel, methods) {
    return `${measureName(measure(panel))} against seconds of training, ${methods.length} methods. `
      + "Left and right arrow keys move along a method, up and down change it.";
  }

  function timeAxis(ends, x, box) {
    const marks = view.log ? decades(ends) : ticks(0, ends[1], 5).values;
    const labels = marks.map((t) => svg("text", { x: x(along(t)), y: box.bottom + 18, "text-anchor": "middle" }, duration(t) === "<1 ms" ? "0" : duration(t)));
    const middle = (box.left + box.right) / 2;
    return [...labels,
      svg("text", { x: middle, y: box.bottom + 37, "text-anchor": "middle" }, `training time${view.log ? " (log scale)" : ""}`),
      svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom })];
  }

  /** Powers of ten and, where there is room, 2 and 5 times them, but of minutes round ones. */
  function decades([low, high]) {
    const round = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1200, 3600, 7200, 18000, 36000];
    const within = round.filter((t) => t >= low * 0.999 && t <= high * 1.001);
    const step = Math.ceil(within.length / 7);
    return within.filter((_, n) => (within.length - 1 - n) % step === 0);
  }

  function drawLine(node, i, panel, x, y) {
    const { colour, dash, emphasis } = look(i);
    const { seconds, values } = data.learning[i];
    const points = seconds.map((t, n) => [x(along(t)), y(values[measure(panel)][n])]);
    const line = svg("path", {
      class: `curve${emphasis ? " emphasis" : ""}`, d: path(points), stroke: colour,
      "stroke-dasharray": dash, "data-method": data.methods[i].name,
    });
    const [cx, cy] = points.at(-1);
    const end = svg("circle", { cx, cy, r: emphasis ? 4.5 : 3.5, fill: colour });
    node.append(line, end);
    return { line, end, points };
  }

  function drawNames(node, lines, box, size) {
    const ends = [...lines].map(([i, { points }]) => ({ i, end: points.at(-1) })).sort((a, b) => a.end[1] - b.end[1]);
    const places = spread(ends.map(({ end }) => end[1]), size, box.top, box.bottom);
    ends.forEach(({ i, end }, n) => {
      const { colour, emphasis } = look(i);
      const leader = svg("path", {
        class: "leader", stroke: colour, "stroke-dasharray": "1 3",
        d: path([[end[0] + 5, end[1]], [Math.max(end[0] + 5, box.right + 4), end[1]], [box.right + 16, places[n]]]),
      });
      const name = svg("text", {
        class: `name${emphasis ? " emphasis" : ""}`, x: box.right + 20, y: places[n], dy: "0.35em",
      }, data.methods[i].name);
      node.append(leader, name);
      Object.assign(lines.get(i), { name, leader });
    });
  }

  /** Bring a method forward in both panels, and show what it has after an epoch. */
  function highlight(method, at, panel) {
    [view.method, view.at] = [method, at];
    for (const each of drawn) {
      if (!each) continue;
      for (const [i, { line, name, leader, end }] of each.lines) {
        for (const part of [line, name, leader, end]) {
          part.classList.toggle("faded", method !== null && i !== method);
          part.classList.toggle("focus", i === method);
        }
      }
      each.node.querySelector(".dot")?.remove();
      if (method !== null && at !== null && each.lines.has(method)) {
        const [cx, cy] = each.lines.get(method).points[at];
        each.node.append(svg("circle", { class: "dot", cx, cy, r: 5, fill: look(method).colour }));
      }
    }
    if (method === null || at === null) tooltip.hide();
    else showPoint(method, at, panel);
  }

  function showPoint(method, at, panel) {
    const { node, lines } = drawn[panel];
    const { epochs, seconds, values } = data.learning[method];
    const [px, py] = lines.get(method).points[at];
    tooltip.show(() => pointOut(node, px, py), data.methods[method].name, [
      ["after", `${duration(seconds[at])}, epoch ${epochs[at]}`],
      ...data.measures.map((m) => [measureName(m), decimal(values[m][at])])]);
  }

  function point(panel, event) {
    const { node, lines, box } = drawn[panel];
    const [px, py] = pointIn(node, event);
    if (px > box.right + 14) return;
    let nearest = null;
    for (const [i, { points }] of lines) {
      points.forEach(([x, y], at) => {
        const distance = Math.hypot(x - px, y - py);
        if (!nearest || distance < nearest.distance) nearest = { i, at, distance };
      });
    }
    if (nearest) highlight(nearest.i, nearest.at, panel);
  }

  function key(panel, event) {
    const { methods } = drawn[panel];
    if (!methods.length) return;
    const method = view.method ?? (methods.includes(data.emphasis) ? data.emphasis : methods[0]);
    const last = (i) => data.learning[i].epochs.length - 1;
    const at = Math.min(view.at ?? last(method), last(method));
    const ranked = [...methods].sort((a, b) => data.means[b][measure(panel)] - data.means[a][measure(panel)]);
    const fresh = view.method === null;
    const other = (by) => ranked[Math.max(0, Math.min(ranked.length - 1, ranked.indexOf(method) + by))];
    const goTo = (i, n) => highlight(i, Math.max(0, Math.min(last(i), n)), panel);
    const moves = {
      ArrowRight: () => goTo(method, fresh ? at : at + 1),
      ArrowLeft: () => goTo(method, fresh ? at : at - 1),
      ArrowUp: () => goTo(fresh ? method : other(-1), at),
      ArrowDown: () => goTo(fresh ? method : other(1), at),
      Home: () => goTo(method, 0),
      End: () => goTo(method, last(method)),
      Escape: () => highlight(null, null, panel),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  }

  const chips = data.methods.map(({ name, note }, i) => html("button", {
    type: "button", class: `chip${i === data.emphasis ? " emphasis" : ""}`, "aria-pressed": "true",
    disabled: !data.learning[i], title: note ?? "", on: { click: () => toggle(i) },
  }, sample(i), name));

  function toggle(i) {
    if (!view.hidden.delete(i)) view.hidden.add(i);
    chips[i].setAttribute("aria-pressed", String(!view.hidden.has(i)));
    redraw();
    announce(`${data.methods[i].name} ${view.hidden.has(i) ? "hidden" : "shown"}`);
  }

  /** The same numbers as text, to read and to copy. */
  function drawValues() {
    const head = ["Method", "Epoch", "Seconds", ...data.measures.map(measureName)];
    const body = visible().flatMap((i) => data.learning[i].epochs.map((epoch, n) => html("tr", {},
      html("th", { scope: "row" }, data.methods[i].name), html("td", {}, String(epoch)),
      html("td", {}, data.learning[i].seconds[n].toFixed(2)),
      data.measures.map((m) => html("td", {}, decimal(data.learning[i].values[m][n]))))));
    const holder = byRole(root, "values-table");
    fill(holder, { tabindex: 0, role: "region", "aria-label": "All values of the curves" }, []);
    holder.replaceChildren(html("table", { class: "stick" },
      html("thead", {}, html("tr", {}, head.map((text) => html("th", { scope: "col" }, text)))), html("tbody", {}, body)));
  }

  const values = byRole(root, "values");
  values.addEventListener("toggle", () => { if (values.open) drawValues(); });
  let redraws = [];
  function redraw() {
    redraws.forEach((again) => again());
    if (values.open) drawValues();
  }

  if (!visible().length) {
    byRole(root, "lede").textContent = "No method of this run has a result yet.";
    values.hidden = true;
    return;
  }
  byRole(root, "lede").textContent = "On the test part, after some of the epochs of the final fit; a dot marks the end of training. All methods begin at the same random factors.";
  byRole(root, "controls").append(
    choice("Show", "learning-pair", [
      { value: "0", text: "Precision@1 and @10" }, { value: "1", text: "Recall@20 and NDCG@20" },
    ], "0", (value) => { view.pair = Number(value); redraw(); }),
    choice("Time", "learning-scale", [
      { value: "log", text: "Log scale" }, { value: "linear", text: "Linear" },
    ], "log", (value) => { view.log = value === "log"; redraw(); }));
  byRole(root, "figures").append(...holders);
  byRole(root, "chips").append(...chips);
  redraws = holders.map((holder, panel) => responsive(holder, (width) => draw(panel, width)));
};
