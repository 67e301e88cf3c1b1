// The scaling report: precision on p workers, where their time goes, what the number of parts does.

/** Colours of runs on several workers or parts, smallest first; WARP has the one that is left out. */
const RUN_COLOURS = [1, 2, 3, 0, 6, 4].map((n) => `var(--m${n})`);

/** How a run looks in all figures of this report: a colour for each number of parts. */
function runLook({ name, workers, parts }) {
  if (name.startsWith("WARP")) return { colour: "var(--m5)", dash: workers === 1 ? "none" : "2 4" };
  const several = [...new Set(data.runs.map((run) => run.parts))].filter((n) => n > 1).sort((a, b) => a - b);
  const place = several.indexOf(parts);
  return { colour: place < 0 ? "var(--accent)" : RUN_COLOURS[place % RUN_COLOURS.length], dash: "none" };
}

/** Precision@1 of several runs. */
function precisionChart(figure, width, lines, options) {
  const range = [0, Math.max(1e-6, ...lines.flatMap((line) => line.x))];
  return lineChart(figure, width, {
    title: "Precision@1", lines, xRange: range,
    label: `Precision@1 against ${options.xLabel}: ${lines.map(({ name }) => name).join(", ")}. Left and right arrow keys move along a run, up and down change it.`,
    marks: ticks(...range, isNarrow() ? 3 : 5).values,
    yRange: [0, Math.max(1e-6, ...lines.flatMap((line) => line.y)) * 1.04], ...options,
  });
}

sections.speed = (root) => {
  const view = { engine: "threads" };
  const holders = [html("figure"), html("figure")];
  const drawn = [null, null];

  function lines(byWorkers) {
    return data.runs.filter(({ workers, parts }) => workers === parts)
      .filter(({ engine, name }) => engine === view.engine || name.startsWith("WARP"))
      .map(({ name, workers, parts, precision, seconds }) => ({
        id: name, name, ...runLook({ name, workers, parts }), emphasis: workers === 1 && name.startsWith("RoBiRank"),
        x: seconds.map((s) => s * (byWorkers ? workers : 1)), y: precision,
        rows: (n) => [["Precision@1", decimal(precision[n])], ["epoch", String(n + 1)], ["seconds", seconds[n].toFixed(2)], ["workers × seconds", (seconds[n] * workers).toFixed(2)]],
      }));
  }

  const draw = (panel) => (width) => {
    drawn[panel] = precisionChart(holders[panel], width, lines(panel === 0), {
      xLabel: panel ? "seconds" : "workers × seconds", xText: (t) => (t === 0 ? "0" : duration(t)),
      onHighlight: (id, n) => drawn[1 - panel]?.highlight(id, n),
    });
  };

  byRole(root, "lede").textContent = "Left: if the work were shared without loss, and parts did not matter, all lines of RoBiRank would be one. Right: what is reached in the same time.";
  byRole(root, "figures").append(...holders);
  const redraws = holders.map((holder, panel) => responsive(holder, draw(panel)));
  if (data.runs.some(({ engine }) => engine === "ray")) {
    byRole(root, "controls").append(choice("RoBiRank on", "speed-engine", [
      { value: "threads", text: "Threads" }, { value: "ray", text: "Ray" },
    ], "threads", (value) => { view.engine = value; redraws.forEach((redraw) => redraw()); }));
  }
};

sections.work = (root) => {
  byRole(root, "lede").textContent = data.clocks;
  plainTable(byRole(root, "table"), "Where the time of the workers went",
    ["Run", "Workers", "Parts", "Precision@1", "Elapsed", "Work", "Waiting"],
    data.runs.map(({ name, workers, parts, precision, seconds, work, waiting }) => [
      name, String(workers), String(parts), decimal(precision.at(-1)), duration(seconds.at(-1)), duration(work), duration(waiting)]));
};

sections.parts = (root) => {
  const figure = byRole(root, "figure");
  const runs = data.runs.filter(({ name, engine }) => name.startsWith("RoBiRank") && engine === "threads").sort((a, b) => a.parts - b.parts);
  byRole(root, "lede").textContent = "The number of parts decides which steps are taken, and in which order; the number of workers does not. In the first epochs every part learns directions of its own, and these have to find together.";
  const lines = runs.map((run) => ({
    id: run.parts, name: count(run.parts, "part"), ...runLook(run), emphasis: run.parts === 1,
    x: run.precision.map((_, n) => n + 1), y: run.precision,
    rows: (n) => [["Precision@1", decimal(run.precision[n])], ["epoch", String(n + 1)]],
  }));
  responsive(figure, (width) => precisionChart(figure, width, lines, { xLabel: "epochs", xText: String }));
};
