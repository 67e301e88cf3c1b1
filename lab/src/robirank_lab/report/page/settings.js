// What was tried on the validation queries, and what was chosen.

sections.settings = (root) => {
  const searched = data.methods.map((_, i) => i).filter((i) => data.fits.some((fit) => fit.method === i && fit.grid.length));
  const figure = byRole(root, "figure");
  if (!searched.length) {
    byRole(root, "lede").textContent = "No method of this run was searched over a grid of settings.";
    return;
  }
  const view = { method: searched.includes(data.emphasis) ? data.emphasis : searched[0], all: false };
  const most = 14; // settings shown at first
  const mean = ({ at }) => (at.length ? sum(at.map((t) => t.value)) / at.length : -Infinity);

  const fits = () => data.fits.filter((fit) => fit.method === view.method && fit.grid.length);

  /** The settings of a method's grid: by the only parameter that moves if it is a number, else the best first. */
  function grid() {
    const found = new Map();
    for (const fit of fits()) {
      for (const { params, validation } of fit.grid) {
        const id = JSON.stringify(params);
        if (!found.has(id)) found.set(id, { params, at: [] });
        if (validation !== null) found.get(id).at.push({ fold: fit.case, value: validation, chosen: JSON.stringify(fit.params) === id });
      }
    }
    const points = [...found.values()];
    const names = [...new Set(points.flatMap(({ params }) => Object.keys(params)))];
    const moving = names.filter((name) => new Set(points.map(({ params }) => JSON.stringify(params[name]))).size > 1);
    const ordered = moving.length === 1 && points.every(({ params }) => typeof params[moving[0]] === "number");
    return points.sort(ordered ? (p, q) => p.params[moving[0]] - q.params[moving[0]] : (p, q) => mean(q) - mean(p));
  }

  function summary() {
    const part = data.kind === "latent" ? "part" : "queries";
    const known = fits().map((fit) => fit.validation).filter((v) => v !== null);
    const test = data.means[view.method][data.select];
    const first = `${data.methods[view.method].name}: ${metricName(data.select)} of the chosen settings is ${decimal(known.length ? sum(known) / known.length : null)} on the validation ${part}`;
    return test === undefined ? `${first}.` : `${first} and ${decimal(test)} on the test ${part}.`;
  }

  /** One tried setting on one fold. */
  function dot({ fold, value, chosen, params }, cx, cy, colour) {
    const show = () => {
      const node = circle.ownerSVGElement;
      tooltip.show(() => pointOut(node, cx, cy), setting(params), [[data.caseNoun, data.cases[fold]], ["validation", decimal(value)], ...(chosen ? [["", "chosen"]] : [])]);
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

  function draw(width) {
    const all = grid();
    const rows = view.all ? all : all.slice(0, most);
    const range = rangeOf(rows.flatMap(({ at }) => at.map(({ value }) => value)));
    const marks = ticks(...range, isNarrow() ? 4 : 6);
    const { colour } = look(view.method);
    const { node, x, y } = rowChart(width, `Validation metric of ${data.methods[view.method].name} for each setting, a dot a ${data.caseNoun}`, {
      names: rows.map(({ params }) => setting(params)), range, marks: marks.values, markText: (v) => decimal(v, digitsOf(marks.step)),
    });
    rows.forEach((row, n) => {
      if (row.at.length) node.append(svg("line", { x1: x(mean(row)), x2: x(mean(row)), y1: y(n) - 8, y2: y(n) + 8, stroke: colour, "stroke-width": 2.5 }));
      const dots = [...row.at].sort((p, q) => p.chosen - q.chosen);
      node.append(...dots.map((t) => dot({ ...t, params: row.params }, x(t.value), y(n), colour)));
    });
    const more = all.length > most ? html("button", {
      type: "button", class: "quiet", on: { click: () => { view.all = !view.all; redraw(); figure.querySelector("button")?.focus(); } },
    }, view.all ? `Only ${most}` : `All ${all.length} settings`) : "";
    figure.replaceChildren(node, html("figcaption", {}, `Filled dots are the settings that were chosen. One dot a ${data.caseNoun}; the stroke is their mean.`), more);
    byRole(root, "lede").textContent = summary();
  }

  byRole(root, "controls").append(chooser("Method",
    searched.map((i) => ({ value: String(i), text: data.methods[i].name })), String(view.method),
    (value) => { view.method = Number(value); view.all = false; redraw(); }));
  const redraw = responsive(figure, draw);
};
