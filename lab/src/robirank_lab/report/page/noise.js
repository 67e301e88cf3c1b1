// The report on noise: quality against the share that is spoiled, and the areas under the curves.

/** What was found under a kind of noise, of a metric. */
function spoiled({ kind, metric }) {
  return data.curves.find((entry) => entry.kind === kind && entry.metric === metric);
}

/** Choose a kind of noise, and a metric where a kind has several; calls changed(). */
function noiseControls(root, name, view, changed) {
  const holder = byRole(root, "controls");
  const metrics = html("span");
  function drawMetrics() {
    const there = data.metrics.filter(({ id }) => spoiled({ kind: view.kind, metric: id }));
    if (!there.some(({ id }) => id === view.metric)) view.metric = there[0]?.id ?? data.lead;
    metrics.replaceChildren(there.length < 2 ? "" : chooser("Metric",
      there.map(({ id, name: text }) => ({ value: id, text })), view.metric,
      (value) => { view.metric = value; changed(); }));
  }
  holder.append(choice("Noise", name, data.kinds.map((kind) => ({ value: kind.name, text: kind.name })),
    view.kind, (value) => { view.kind = value; drawMetrics(); changed(); }), metrics);
  drawMetrics();
}

/** What the kind of noise does, as a sentence. */
function noiseWords(kind) {
  return `With a share s of noise, ${data.kinds.find(({ name }) => name === kind).words}.`;
}

function metricText(id) {
  return data.metrics.find((metric) => metric.id === id).name;
}

sections.noise = (root) => {
  const view = { kind: data.kinds[0].name, metric: data.lead };
  const figure = byRole(root, "figure");
  const found = () => spoiled(view)?.methods ?? [];
  let chart = null;

  function draw(width) {
    const lines = found().flatMap((curve, i) => (curve && methods.shown(i) ? [{
      id: i, name: data.methods[i].name, ...look(i), x: data.shares, y: curve.mean, half: curve.half,
      rows: (n) => [["noise", decimal(data.shares[n], 2)], [metricText(view.metric),
        decimal(curve.mean[n]) + (curve.half[n] === null ? "" : ` ± ${decimal(curve.half[n])}`)]],
    }] : []));
    const ends = lines.flatMap((line) => line.y.flatMap((value, n) => {
      const half = line.emphasis ? line.half[n] ?? 0 : 0;
      return [value - half, value + half];
    }));
    chart = lineChart(figure, width, {
      title: metricText(view.metric), lines, xLabel: "share of noise",
      label: `${metricText(view.metric)} against the share of noise (${view.kind}), ${lines.length} methods. `
        + "Left and right arrow keys move along a method, up and down change it.",
      xRange: [0, data.shares.at(-1)], xText: (s) => (s === 0 ? "0" : decimal(s, 2)), marks: data.shares,
      yRange: rangeOf(ends),
    });
  }

  if (!data.curves.length) {
    byRole(root, "lede").textContent = "No method of this run has all its results yet.";
    return;
  }
  const methods = methodChooser(byRole(root, "chips"), {
    usable: (i) => Boolean(found()[i]), value: (i) => found()[i].area, changed: () => redraw(),
    focus: (i) => { if (chart && (i === null || chart.has(i))) chart.highlight(i, null); },
  });
  function changed() {
    byRole(root, "lede").textContent = `${noiseWords(view.kind)} The band is that of ${data.methods[data.emphasis].name}, or of the method pointed at: a 95 % interval, with the level of each of the ${data.how.sample} taken out.`;
    methods.refresh();
    redraw();
  }
  noiseControls(root, "noise-kind", view, changed);
  const redraw = responsive(figure, draw);
  changed();
};

sections.areas = (root) => {
  const view = { kind: data.kinds[0]?.name, metric: data.lead };
  const reference = data.methods[data.emphasis].name;

  function difference(test) {
    if (!test) return "";
    const bounds = test.low === null ? "" : ` ${interval(test.low, test.high, 4)}`;
    return signed(test.difference, 4) + bounds;
  }

  function changed() {
    const methods = spoiled(view)?.methods ?? [];
    const order = methods.map((_, i) => i).filter((i) => methods[i]).sort((a, b) => methods[b].area - methods[a].area);
    byRole(root, "lede").textContent = `${metricText(view.metric)}, by the share of noise. The area is the mean height of the curve; kept is what is left of the clean figure at the largest share. Differences of areas have 95 % intervals, and p-values are adjusted.`;
    plainTable(byRole(root, "table"), "Areas under the curves",
      ["Method", ...data.shares.map((s) => `s = ${short(s)}`), "Area", "Kept", `Area less ${reference}'s`, "Adjusted p"],
      order.map((i) => [data.methods[i].name, ...methods[i].mean.map((value) => decimal(value)), decimal(methods[i].area),
        view.metric === data.lead && methods[i].kept !== null ? `${(100 * methods[i].kept).toFixed(1)} %` : NONE,
        difference(methods[i].test), methods[i].test && methods[i].test.low !== null ? pValue(methods[i].test.p_adjusted) : ""]));
  }

  if (!data.curves.length) {
    byRole(root, "lede").textContent = "No method of this run has all its results yet.";
    return;
  }
  noiseControls(root, "areas-kind", view, changed);
  changed();
};
