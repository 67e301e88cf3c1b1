// Measures on the test part against seconds of training: the paper's figure, a panel a measure.

sections.learning = (root) => {
  const view = { log: true, hidden: new Set(), pair: 0 };
  const pairs = [["precision@1", "precision@10"], ["recall@20", "ndcg@20"]];
  const holders = [html("figure"), html("figure")];
  const drawn = [null, null];

  const visible = () => data.methods.map((_, i) => i).filter((i) => data.learning[i] && !view.hidden.has(i));

  function draw(panel, width) {
    const methods = visible();
    const measure = pairs[view.pair][panel];
    const times = methods.flatMap((i) => data.learning[i].seconds);
    const range = [view.log ? Math.min(...times) : 0, Math.max(...times)];
    drawn[panel] = lineChart(holders[panel], width, {
      title: measureName(measure),
      label: `${measureName(measure)} against seconds of training, ${methods.length} methods. `
        + "Left and right arrow keys move along a method, up and down change it.",
      lines: methods.map((i) => ({
        id: i, name: data.methods[i].name, ...look(i), x: data.learning[i].seconds,
        y: data.learning[i].values[measure], rows: (n) => rows(i, n),
      })),
      xLabel: "training time", log: view.log, xRange: range, xText: (t) => (t ? duration(t) : "0"),
      marks: view.log ? timeMarks(range) : ticks(...range, 5).values,
      yRange: [0, Math.max(1e-6, ...methods.flatMap((i) => data.learning[i].values[measure])) * 1.04],
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
