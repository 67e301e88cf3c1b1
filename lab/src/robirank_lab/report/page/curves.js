// NDCG@k against k: a line a method.

sections.curves = (root) => {
  const figure = byRole(root, "figure");
  const view = { scope: 0, mode: "mean" };
  const reference = data.methods[data.emphasis].name;
  const ks = Array.from({ length: data.kMax }, (_, n) => n + 1);
  let drawn = null;

  const curves = () => data.scopes[view.scope].curves;
  const visible = () => data.methods.map((_, i) => i).filter((i) => methods.shown(i) && curves()[i]?.[view.mode]);
  const text = (value, digits = 4) => (view.mode === "mean" ? decimal(value, digits) : signed(value, digits));

  function draw(width) {
    const drawnMethods = visible();
    const what = view.mode === "mean" ? "NDCG@k" : `NDCG@k less that of ${reference}`;
    const room = (width - (isNarrow() ? 46 : 240)) / data.kMax;
    drawn = lineChart(figure, width, {
      label: `${what} for k from 1 to ${data.kMax}, ${drawnMethods.length} methods, ${data.scopes[view.scope].name}. `
        + "Left and right arrow keys change k, up and down the method.",
      lines: drawnMethods.map(line), byColumn: true, start: Math.min(data.kMax, 10) - 1,
      xLabel: "k, the number of documents looked at", xText: String, xRange: [1, Math.max(2, data.kMax)],
      marks: ks.filter((k) => room >= 22 || k === 1 || k % 5 === 0 || k === data.kMax),
      yRange: rangeOf(drawnMethods.flatMap(bounds)), yText: text,
      valueText: ({ y }, n) => text(y[n ?? data.kMax - 1]),
      valueTitle: (n) => `NDCG@${(n ?? data.kMax - 1) + 1}`,
      caption: caption(),
    });
  }

  function line(i) {
    const curve = curves()[i];
    return {
      id: i, name: data.methods[i].name, ...look(i), x: ks, y: curve[view.mode],
      half: curve[view.mode === "mean" ? "half" : "differenceHalf"], rows: (n) => rows(i, n),
    };
  }

  /** All that must fit: the values, and the band of the method that always has one. */
  function bounds(i) {
    const { mean, half, [view.mode]: values } = curves()[i];
    const band = i === data.emphasis && view.mode === "mean"
      ? mean.flatMap((v, n) => (v === null || half[n] === null ? [] : [v - half[n], v + half[n]])) : [];
    return values.filter((v) => v !== null).concat(band);
  }

  function rows(i, n) {
    const { mean, half, difference, differenceHalf } = curves()[i];
    const place = 1 + visible().filter((j) => curves()[j].mean[n] > mean[n]).length;
    const found = [[`NDCG@${n + 1}`, decimal(mean[n])]];
    if (half[n] !== null) found.push(["95 % interval", interval(mean[n] - half[n], mean[n] + half[n])]);
    if (difference && i !== data.emphasis) {
      const [d, width] = [difference[n], differenceHalf[n]];
      found.push([`less ${reference}`, signed(d, 4)]);
      if (width !== null) found.push(["paired 95 % interval", interval(d - width, d + width)]);
    }
    return [...found, ["place", `${place} of ${visible().length}`]];
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
      controls.push(chooser("Queries", options, "0", (value) => { view.scope = Number(value); redraw(); }));
    }
    byRole(root, "controls").replaceChildren(...controls);
  }

  const methods = methodChooser(byRole(root, "chips"), {
    usable: (i) => Boolean(curves()[i]), value: (i) => data.means[i][data.lead] ?? -1,
    changed: () => redraw(), focus: (i) => drawn?.highlight(drawn.has(i) ? i : null, null),
  });

  const values = byRole(root, "values");
  function redraw() {
    methods.refresh();
    redrawFigure();
    if (values.open) drawValues();
  }

  /** The same numbers as text, to read and to copy. */
  function drawValues() {
    plainTable(byRole(root, "values-table"), "All values of the curves", ["k", ...ks.map(String)],
      visible().map((i) => [data.methods[i].name, ...curves()[i][view.mode].map((v) => text(v))]));
  }

  drawControls();
  values.addEventListener("toggle", () => { if (values.open) drawValues(); });
  const redrawFigure = responsive(figure, draw);
};
