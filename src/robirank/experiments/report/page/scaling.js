// The scaling report: precision on p workers, where their time goes, and what many machines would do.

const PART_COLOURS = { compute: "var(--m0)", waiting: "var(--m1)", communication: "var(--m5)", latency: "var(--accent)", driver: "var(--m2)" };
const PART_NAMES = {
  compute: "work", waiting: "waiting for slower machines", communication: "blocks of V on the way",
  latency: "latency", driver: "waiting for the driver",
};

/** Colours of runs on several workers or parts, smallest first; WARP has the one that is left out. */
const RUN_COLOURS = [1, 2, 3, 0, 6, 4].map((n) => `var(--m${n})`);

/** How a run looks in all figures of this report: a colour for each number of parts. */
function runLook({ name, workers, parts }) {
  if (name.startsWith("WARP")) return { colour: "var(--m5)", dash: workers === 1 ? "none" : "2 4" };
  const sizes = [...data.scaling.works, ...data.scaling.simulated].map((run) => Math.max(run.workers, run.parts));
  const several = [...new Set(sizes)].filter((size) => size > 1).sort((a, b) => a - b);
  const place = several.indexOf(Math.max(workers, parts));
  return { colour: place < 0 ? "var(--accent)" : RUN_COLOURS[place % RUN_COLOURS.length], dash: "none" };
}

function count(n, one, many = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** Precision@1 of several runs. */
function precisionChart(figure, width, lines, options) {
  const xs = lines.flatMap((line) => line.x);
  const range = [options.log ? Math.min(...xs) : 0, Math.max(...xs)];
  return lineChart(figure, width, {
    title: "Precision@1", lines, xRange: range,
    label: `Precision@1 against ${options.xLabel}: ${lines.map(({ name }) => name).join(", ")}. Left and right arrow keys move along a run, up and down change it.`,
    marks: options.log ? timeMarks(range) : ticks(...range, isNarrow() ? 3 : 5).values,
    yRange: [0, Math.max(1e-6, ...lines.flatMap((line) => line.y)) * 1.04], ...options,
  });
}

sections.speed = (root) => {
  const found = data.scaling;
  if (!found) return;
  const view = { clock: "path", simulated: false, engine: "local" };
  const hasRay = found.works.some(({ engine }) => engine === "ray");
  const holders = [html("figure"), html("figure")];
  const drawn = [null, null];

  function lines(byWorkers) {
    const measured = found.works.filter((work) => work.workers === work.parts)
      .filter(({ engine, name }) => engine === view.engine || name.startsWith("WARP"))
      .map((work) => line(work, work[view.clock], runLook(work), byWorkers));
    if (!view.simulated || view.clock !== "path") return measured;
    return measured.concat(found.simulated.map((work) => line(work, work.path, { ...runLook(work), dash: "6 4" }, byWorkers)));
  }

  function line(work, seconds, { colour, dash }, byWorkers) {
    return {
      id: work.name, name: work.name, colour, dash, emphasis: work.workers === 1 && work.name.startsWith("RoBiRank"),
      x: seconds.map((s) => s * (byWorkers ? work.workers : 1)), y: work.precision,
      rows: (n) => [["Precision@1", decimal(work.precision[n])], ["epoch", String(n + 1)], ["seconds", seconds[n].toFixed(2)], ["workers × seconds", (seconds[n] * work.workers).toFixed(2)]],
    };
  }

  const draw = (panel) => (width) => {
    const log = view.simulated && view.clock === "path";
    drawn[panel] = precisionChart(holders[panel], width, lines(panel === 0), {
      xLabel: panel ? "seconds" : "workers × seconds", xText: (t) => (t === 0 ? "0" : duration(t)), log,
      onHighlight: (id, n) => drawn[1 - panel]?.highlight(id, n),
    });
  };

  byRole(root, "lede").textContent = "Left: if the work were shared without loss, and parts did not matter, all lines of RoBiRank would be one. Right: what is reached in the same time.";
  byRole(root, "controls").append(
    choice("Clock", "speed-clock", [
      { value: "path", text: "A core for each worker" },
      { value: "elapsed", text: `Elapsed here, on ${count(found.cores, "core")}` },
    ], "path", (value) => { view.clock = value; redraw(); }),
    choice("Many machines", "speed-simulated", [
      { value: "no", text: "Measured only" }, { value: "yes", text: "With simulated" },
    ], "no", (value) => { view.simulated = value === "yes"; redraw(); }),
    hasRay ? choice("RoBiRank on", "speed-engine", [
      { value: "local", text: "Threads" }, { value: "ray", text: "Ray" },
    ], "local", (value) => { view.engine = value; redraw(); }) : "");
  byRole(root, "figures").append(...holders);
  const again = holders.map((holder, panel) => responsive(holder, draw(panel)));
  function redraw() { again.forEach((one) => one()); }
};

sections.work = (root) => {
  const found = data.scaling;
  if (!found) return;
  byRole(root, "lede").textContent = "Seconds of a worker, the mean, for the whole run. Work is processor time. The wait for others is what a worker with a core of its own would wait for slower parts and for V to be put in order. The rest of what elapsed is waiting for a core.";
  plainTable(byRole(root, "table"), "Where the time of the workers went",
    ["Run", "Workers", "Parts", "Precision@1", "Elapsed", "Work", "Waits for others", "Waits for a core"],
    found.works.map(({ name, workers, parts, precision, elapsed, shares }) => [
      name, String(workers), String(parts), decimal(precision.at(-1)), duration(elapsed.at(-1)),
      duration(shares.compute), workers === parts ? duration(Math.max(0, shares.waiting)) : NONE, duration(Math.max(0, shares.core))]));
};

sections.parts = (root) => {
  const found = data.scaling;
  if (!found) return;
  const figure = byRole(root, "figure");
  const works = found.works.filter(({ name, engine }) => name.startsWith("RoBiRank") && engine === "local").sort((a, b) => a.parts - b.parts);
  byRole(root, "lede").textContent = "The number of parts decides which steps are taken, and in which order; the number of workers does not. In the first epochs every part learns directions of its own, and these have to find together.";
  const lines = works.map((work) => ({
    id: work.parts, name: count(work.parts, "part"), colour: runLook({ ...work, workers: work.parts }).colour, emphasis: work.parts === 1,
    x: work.precision.map((_, n) => n + 1), y: work.precision,
    rows: (n) => [["Precision@1", decimal(work.precision[n])], ["epoch", String(n + 1)]],
  }));
  responsive(figure, (width) => precisionChart(figure, width, lines, { xLabel: "epochs", xText: String }));
};

sections.simulated = (root) => {
  const found = data.scaling;
  if (!found) return;
  const figure = byRole(root, "figure");
  const view = { shape: found.shapes.length - 1, driver: false, machines: true };
  const shape = () => found.shapes[view.shape];
  const kinds = () => (view.driver ? [...found.kinds, "driver"] : found.kinds);

  /** Seconds of an epoch by what they go into. */
  function bar(n) {
    const epoch = shape().epochs[n];
    const driver = view.driver ? epoch.driver - epoch.total : 0;
    return { machines: epoch.machines, ...Object.fromEntries(found.kinds.map((kind) => [kind, epoch[kind]])), driver, total: epoch.total + driver };
  }

  function draw(width) {
    const narrow = isNarrow();
    const bars = shape().epochs.map((_, n) => bar(n));
    const one = bars[0].total;
    const height = (b, kind) => (view.machines ? b.machines * b[kind] / one : b[kind]);
    const box = { left: 48, right: width - 4, top: 16, bottom: narrow ? 260 : 330 };
    const cap = view.machines ? 8 : one;
    const top = Math.min(cap, Math.max(...bars.map((b) => height(b, "total")))) * 1.06;
    const y = scale([0, top], [box.bottom, box.top]);
    const step = (box.right - box.left) / bars.length;
    const node = chart(width, box.bottom + 42, `Where the time of an epoch goes on ${bars.map((b) => `${b.machines} machines: ${duration(b.total)}`).join(", ")}`);
    node.append(...gridLines(ticks(0, top, 6), y, box.left, box.right, (v) => (view.machines ? `${short(v)} ×` : duration(v))));
    bars.forEach((b, n) => {
      const left = box.left + n * step + step * 0.12;
      let low = 0;
      for (const kind of kinds()) {
        const high = Math.min(top, low + height(b, kind));
        if (high > low) node.append(svg("rect", { x: left, width: step * 0.76, y: y(high), height: Math.max(0, y(low) - y(high)), fill: PART_COLOURS[kind], "data-kind": kind }));
        low = high;
      }
      const beyond = height(b, "total") > top;
      node.append(
        svg("text", { x: left + step * 0.38, y: box.bottom + 18, "text-anchor": "middle" }, b.machines.toLocaleString("en")),
        beyond ? svg("text", { class: "strong", x: left + step * 0.38, y: box.top - 4, "text-anchor": "middle" }, `${short(Math.round(height(b, "total")))}${view.machines ? " ×" : " s"}`) : "",
        svg("rect", { class: "hit", x: box.left + n * step, width: step, y: box.top, height: box.bottom - box.top, on: {
          pointermove: () => tooltip.show(() => pointOut(node, left + step * 0.76, y(Math.min(top, height(b, "total")))), count(b.machines, "machine"), [
            ["an epoch", duration(b.total)], ["faster by", `${(one / b.total).toFixed(1)} ×`],
            ...kinds().map((kind) => [PART_NAMES[kind], duration(b[kind])])]),
          pointerleave: () => tooltip.hide(),
        } }));
    });
    if (view.machines) node.append(svg("line", { class: "zero", x1: box.left, x2: box.right, y1: y(1), y2: y(1) }));
    node.append(svg("text", { x: (box.left + box.right) / 2, y: box.bottom + 37, "text-anchor": "middle" }, "machines"),
      svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    figure.replaceChildren(node, html("figcaption", {}, view.machines
      ? "Machines × seconds of an epoch, as a multiple of one machine's. The line at 1 would be a perfect share of the work."
      : "Seconds of an epoch."));
    drawTable(bars);
    drawLegend();
  }

  function drawLegend() {
    byRole(root, "chips").replaceChildren(...kinds().map((kind) => html("span", { class: "chip" },
      svg("svg", { viewBox: "0 0 18 8", "aria-hidden": "true" }, svg("rect", { width: 12, height: 8, x: 3, fill: PART_COLOURS[kind] })), PART_NAMES[kind])));
  }

  function drawTable(bars) {
    const { users, items, records, factors, stops } = shape();
    byRole(root, "lede").textContent = `Not measured but simulated, for ${users.toLocaleString("en")} users, ${items.toLocaleString("en")} items, ${records.toLocaleString("en")} records and ${factors} factors. `
      + `Twice as many machines are no longer faster by a tenth at ${(view.driver ? shape().stops_driver : stops).toLocaleString("en")}.`;
    plainTable(byRole(root, "table"), "Simulated times", ["Machines", "An epoch", "Faster by", ...kinds().map((kind) => PART_NAMES[kind])],
      bars.map((b) => [b.machines.toLocaleString("en"), duration(b.total), `${(bars[0].total / b.total).toFixed(1)} ×`, ...kinds().map((kind) => duration(b[kind]))]));
  }

  const redraw = responsive(figure, draw);
  byRole(root, "controls").append(
    choice("Data", "simulated-shape", found.shapes.map(({ name }, n) => ({ value: String(n), text: name })), String(view.shape),
      (value) => { view.shape = Number(value); redraw(); }),
    choice("Tasks", "simulated-driver", [
      { value: "no", text: "Machines hand on blocks" }, { value: "yes", text: "A driver hands out each" },
    ], "no", (value) => { view.driver = value === "yes"; redraw(); }),
    choice("Height", "simulated-height", [
      { value: "yes", text: "Machines × seconds" }, { value: "no", text: "Seconds" },
    ], "yes", (value) => { view.machines = value === "yes"; redraw(); }));
};

sections.check = (root) => {
  const found = data.scaling;
  if (!found) return;
  byRole(root, "lede").textContent = "Seconds of an epoch. The rates come from single tasks, timed between the epochs of the measured runs; nothing of these runs was used.";
  const error = (predicted, measured) => `${predicted < measured ? MINUS : "+"}${Math.round(100 * Math.abs(predicted / measured - 1))} %`;
  plainTable(byRole(root, "table"), "Measured and simulated",
    ["Workers", "Work of one, measured", "Simulated", "Error", "With own cores, measured", "Simulated", "Error", "Elapsed here", "Simulated"],
    found.checks.map((c) => [String(c.workers), duration(c.busy), duration(c.predicted_busy), error(c.predicted_busy, c.busy),
      duration(c.path), duration(c.predicted_path), error(c.predicted_path, c.path), duration(c.elapsed), duration(c.predicted_elapsed)]));
};
