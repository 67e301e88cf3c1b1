// Metrics on the test part against time: the paper's figure, a panel a metric.

sections.learning = (root) => {
  const view = { log: true, pair: 0 };
  const pairs = [
    { metrics: ["precision@1", "precision@10"], text: "Precision@1 and @10" },
    { metrics: ["recall@20", "ndcg@20"], text: "Recall@20 and NDCG@20" },
  ].filter(({ metrics }) => data.metrics.includes(metrics[0]));
  const holders = [html("figure"), html("figure")];
  const drawn = [null, null];

  const visible = () => data.methods.map((_, i) => i).filter((i) => data.learning[i] && methods.shown(i));
  const isLevel = (i) => data.levels.includes(i);

  function draw(panel, width) {
    const lines = visible().filter((i) => !isLevel(i));
    const metric = pairs[view.pair].metrics[panel];
    const published = data.published[metric];
    const times = lines.flatMap((i) => data.learning[i].seconds);
    const levels = visible().filter(isLevel).map((i) => {
      const value = data.learning[i].values[metric].at(-1);
      return { value, text: `${data.methods[i].name}, ${decimal(value)}`, atEnd: true };
    });
    if (published) levels.push({ value: published, text: `best published, ${decimal(published)}` });
    const top = (i) => data.learning[i].values[metric].map((v, n) => v + (i === data.emphasis ? half(i, metric)[n] ?? 0 : 0));
    const range = times.length ? [view.log ? Math.min(...times) : 0, Math.max(...times)] : [0.1, 1];
    drawn[panel] = lineChart(holders[panel], width, {
      title: metricName(metric),
      label: `${metricName(metric)} against ${data.clock}, ${lines.length} methods. `
        + "Left and right arrow keys move along a method, up and down change it.",
      lines: lines.map((i) => ({
        id: i, name: data.methods[i].name, ...look(i), x: data.learning[i].seconds,
        y: data.learning[i].values[metric], half: half(i, metric), rows: (n) => rows(i, n),
      })),
      xLabel: data.clock, log: view.log, xRange: range, xText: (t) => (t ? duration(t) : "0"),
      marks: view.log ? timeMarks(range) : ticks(...range, 5).values,
      yRange: [0, Math.max(1e-6, ...levels.map(({ value }) => value), ...lines.flatMap(top)) * 1.04],
      levels,
      onHighlight: (id, n) => drawn[1 - panel]?.highlight(id, n),
    });
  }

  /** Half the width of the 95 % interval of a mean over users. */
  function half(i, metric) {
    return data.learning[i].error[metric].map((error) => (error === null ? null : 1.96 * error));
  }

  function rows(i, n) {
    const { epochs, seconds, values } = data.learning[i];
    const about = (m) => half(i, m)[n];
    return [["after", `${duration(seconds[n])}, epoch ${epochs[n]}`],
      ...data.metrics.map((m) => [metricName(m), decimal(values[m][n]) + (about(m) === null ? "" : ` ± ${decimal(about(m))}`)])];
  }

  /** The same numbers as text, to read and to copy. */
  function drawValues() {
    plainTable(byRole(root, "values-table"), "All values of the curves", ["Method", "Epoch", "Seconds", ...data.metrics.map(metricName)],
      visible().flatMap((i) => data.learning[i].epochs.map((epoch, n) => [data.methods[i].name, String(epoch),
        data.learning[i].seconds[n].toFixed(2), ...data.metrics.map((m) => decimal(data.learning[i].values[m][n]))])));
  }

  const values = byRole(root, "values");
  values.addEventListener("toggle", () => { if (values.open) drawValues(); });
  let redraws = [];
  function redraw() {
    redraws.forEach((again) => again());
    if (values.open) drawValues();
  }

  if (!data.learning.some(Boolean)) {
    byRole(root, "lede").textContent = "No method of this run has a result yet.";
    values.hidden = true;
    return;
  }
  const methods = methodChooser(byRole(root, "chips"), {
    usable: (i) => Boolean(data.learning[i]), always: isLevel,
    value: (i) => (isLevel(i) ? -1 : data.learning[i].values[data.lead].at(-1)),
    changed: redraw,
  });
  const published = data.how.source ? ` The dashed line is the best published figure (${data.how.source}).` : "";
  byRole(root, "lede").textContent = "On the test part, after some of the epochs; a dot marks the end of training."
    + `${published} The band is the 95 % confidence interval of a mean over users, of ${data.methods[data.emphasis].name} or of the method pointed at.`;
  byRole(root, "controls").append(
    pairs.length > 1 ? choice("Show", "learning-pair", pairs.map(({ text }, n) => ({ value: String(n), text })),
      "0", (value) => { view.pair = Number(value); redraw(); }) : "",
    choice("Time", "learning-scale", [
      { value: "log", text: "Log scale" }, { value: "linear", text: "Linear" },
    ], "log", (value) => { view.log = value === "log"; redraw(); }));
  byRole(root, "figures").append(...holders);
  redraws = holders.map((holder, panel) => responsive(holder, (width) => draw(panel, width)));
};
