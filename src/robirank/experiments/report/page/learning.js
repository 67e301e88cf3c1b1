// Measures on the test part against time: the paper's figure, a panel a measure.

sections.learning = (root) => {
  const view = { log: true, hidden: new Set(), pair: 0 };
  const pairs = [
    { measures: ["precision@1", "precision@10"], text: "Precision@1 and @10" },
    { measures: ["recall@20", "ndcg@20"], text: "Recall@20 and NDCG@20" },
  ].filter(({ measures }) => data.measures.includes(measures[0]));
  const holders = [html("figure"), html("figure")];
  const drawn = [null, null];

  const visible = () => data.methods.map((_, i) => i).filter((i) => data.learning[i] && !view.hidden.has(i));

  function draw(panel, width) {
    const methods = visible();
    const measure = pairs[view.pair].measures[panel];
    const published = data.published?.[measure];
    const times = methods.flatMap((i) => data.learning[i].seconds);
    const range = [view.log ? Math.min(...times) : 0, Math.max(...times)];
    drawn[panel] = lineChart(holders[panel], width, {
      title: measureName(measure),
      label: `${measureName(measure)} against ${data.clock}, ${methods.length} methods. `
        + "Left and right arrow keys move along a method, up and down change it.",
      lines: methods.map((i) => ({
        id: i, name: data.methods[i].name, ...look(i), x: data.learning[i].seconds,
        y: data.learning[i].values[measure], rows: (n) => rows(i, n),
      })),
      xLabel: data.clock, log: view.log, xRange: range, xText: (t) => (t ? duration(t) : "0"),
      marks: view.log ? timeMarks(range) : ticks(...range, 5).values,
      yRange: [0, Math.max(published ?? 1e-6, ...methods.flatMap((i) => data.learning[i].values[measure])) * 1.04],
      level: published && { value: published, text: `best published, ${decimal(published)}` },
      onHighlight: (id, n) => drawn[1 - panel]?.highlight(id, n),
    });
  }

  function rows(i, n) {
    const { epochs, seconds, values } = data.learning[i];
    return [["after", `${duration(seconds[n])}, epoch ${epochs[n]}`], ...data.measures.map((m) => [measureName(m), decimal(values[m][n])])];
  }

  const chips = methodChips((i) => data.learning[i], (i) => {
    if (!view.hidden.delete(i)) view.hidden.add(i);
    chips[i].setAttribute("aria-pressed", String(!view.hidden.has(i)));
    redraw();
  });

  /** The same numbers as text, to read and to copy. */
  function drawValues() {
    plainTable(byRole(root, "values-table"), "All values of the curves", ["Method", "Epoch", "Seconds", ...data.measures.map(measureName)],
      visible().flatMap((i) => data.learning[i].epochs.map((epoch, n) => [data.methods[i].name, String(epoch),
        data.learning[i].seconds[n].toFixed(2), ...data.measures.map((m) => decimal(data.learning[i].values[m][n]))])));
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
  byRole(root, "lede").textContent = data.about;
  byRole(root, "controls").append(
    pairs.length > 1 ? choice("Show", "learning-pair", pairs.map(({ text }, n) => ({ value: String(n), text })),
      "0", (value) => { view.pair = Number(value); redraw(); }) : "",
    choice("Time", "learning-scale", [
      { value: "log", text: "Log scale" }, { value: "linear", text: "Linear" },
    ], "log", (value) => { view.log = value === "log"; redraw(); }));
  byRole(root, "figures").append(...holders);
  byRole(root, "chips").append(...chips);
  redraws = holders.map((holder, panel) => responsive(holder, (width) => draw(panel, width)));
};
