// Two methods on the same queries: who wins where, and by how much.

sections.queries = (root) => {
  const usable = data.methods.map((_, i) => i).filter((i) => data.scopes[0].curves[i] || values(i, 0).some((v) => v !== data.missing));
  if (usable.length < 2) {
    byRole(root, "summary").append(html("p", { class: "lede" }, "It takes two methods with results to compare them."));
    return;
  }
  const select = data.metrics.includes(data.lead) ? data.lead : data.metrics[0];
  const view = { a: usable.includes(data.emphasis) ? data.emphasis : usable[0], b: null, metric: select, at: null };
  view.b = rival();
  let pairs = [];
  const marks = [];

  /** The best of the others: the comparison that most will ask for. */
  function rival() {
    const others = usable.filter((i) => i !== view.a);
    const mean = (i) => data.means[i][select] ?? -1;
    return others.reduce((best, i) => (mean(i) > mean(best) ? i : best));
  }

  const name = (i) => data.methods[i].name;

  /** Both methods' colours; ink for the second one where the two are the same. */
  function colours() {
    const [a, b] = [look(view.a).colour, look(view.b).colour];
    return [a, a === b ? "var(--soft)" : b];
  }

  function compute() {
    const m = data.metrics.indexOf(view.metric);
    const [a, b] = [values(view.a, m), values(view.b, m)];
    pairs = [];
    a.forEach((value, q) => {
      if (value !== data.missing && b[q] !== data.missing) {
        pairs.push({ q, a: value / data.scale, b: b[q] / data.scale, d: (value - b[q]) / data.scale });
      }
    });
    pairs.sort((p, r) => r.d - p.d || p.q - r.q);
    view.at = null;
  }

  function drawSummary() {
    const wins = pairs.filter((p) => p.d > 0).length;
    const losses = pairs.filter((p) => p.d < 0).length;
    const ties = pairs.length - wins - losses;
    const [first, second] = colours();
    const segment = (n, colour) => (n ? html("span", { style: { flex: String(n), background: colour } }) : null);
    const told = [
      [wins, `better with ${name(view.a)}`], [ties, "equal to four digits"], [losses, `better with ${name(view.b)}`],
    ];
    byRole(root, "summary").replaceChildren(
      html("div", { class: "score", "aria-hidden": "true" }, segment(wins, first), segment(ties, "var(--line)"), segment(losses, second)),
      html("p", { class: "verdict" }, told.map(([n, text]) => html("span", {}, html("strong", {}, n.toLocaleString("en")), ` ${text}`))),
      html("p", { class: "small" }, meanSentence()));
  }

  function meanSentence() {
    if (!pairs.length) return "No query has a value from both methods.";
    const mean = sum(pairs.map((p) => p.d)) / pairs.length;
    const start = `${meanName(view.metric)} over ${pairs.length.toLocaleString("en")} queries: `
      + `${decimal(sum(pairs.map((p) => p.a)) / pairs.length)} and ${decimal(sum(pairs.map((p) => p.b)) / pairs.length)}, `
      + `difference ${signed(mean, 4)}`;
    const known = stated();
    if (!known) return `${start}.`;
    const bounds = known.low === null ? "" : ` ${interval(known.low, known.high)}`;
    const p = pValue(known.p_adjusted);
    return `${start}${bounds}, adjusted p ${p.startsWith("<") ? p : `= ${p}`}.`;
  }

  /** The tested difference of this pair, whichever way round it was written down. */
  function stated() {
    for (const c of data.comparisons) {
      if (c.metric !== view.metric) continue;
      if (c.method === name(view.a) && c.baseline === name(view.b)) return c;
      if (c.method === name(view.b) && c.baseline === name(view.a)) {
        const flip = (v) => (v === null ? null : -v);
        return { ...c, difference: flip(c.difference), low: flip(c.high), high: flip(c.low) };
      }
    }
    return null;
  }

  function drawBars(figure, width) {
    const height = isNarrow() ? 260 : Math.min(400, Math.max(300, width * 0.6));
    const box = { left: 44, right: width - 4, top: 22, bottom: height - 30 };
    const range = rangeOf([0, ...pairs.map((p) => p.d)]);
    const y = scale(range, [box.bottom, box.top]);
    const step = (box.right - box.left) / Math.max(1, pairs.length);
    const gap = step > 6 ? 1 : 0;
    const [first, second] = colours();
    const bars = (keep) => pairs.map((p, n) => (keep(p)
      ? `M${(box.left + n * step).toFixed(2)} ${y(0).toFixed(1)}V${y(p.d).toFixed(1)}h${Math.max(0.6, step - gap).toFixed(2)}V${y(0).toFixed(1)}Z` : "")).join("");
    const node = chart(width, height, `Difference in ${metricName(view.metric)} of every query, ${name(view.a)} less ${name(view.b)}, largest first. Left and right arrow keys go through the queries.`,
      { tabindex: 0, role: "group", "aria-roledescription": "bar chart" });
    const grid = ticks(...range, 8);
    node.append(...gridLines(grid, y, box.left, box.right, (v) => signed(v, digitsOf(grid.step))),
      svg("path", { d: bars((p) => p.d > 0), fill: first, "data-bars": "a" }),
      svg("path", { d: bars((p) => p.d < 0), fill: second, "data-bars": "b" }),
      svg("line", { class: "zero", x1: box.left, x2: box.right, y1: y(0), y2: y(0) }),
      svg("text", { class: "strong", x: box.left + 2, y: 12 }, `↑ ${name(view.a)} is better`),
      svg("text", { class: "strong", x: box.right, y: height - 12, "text-anchor": "end" }, `↓ ${name(view.b)} is better`));
    const mark = svg("path", { class: "mark", visibility: "hidden" });
    node.append(mark);
    const place = (n) => [box.left + (n + 0.5) * step, y(pairs[n].d)];
    marks.push((n) => {
      mark.setAttribute("visibility", n === null ? "hidden" : "visible");
      if (n !== null) mark.setAttribute("d", `M${place(n)[0]} ${box.top}V${box.bottom}`);
    });
    const nearest = (px) => Math.max(0, Math.min(pairs.length - 1, Math.floor((px - box.left) / step)));
    listen(node, place, ([px]) => nearest(px));
    figure.replaceChildren(node, html("figcaption", {}, `Every query's difference in ${metricName(view.metric)}, sorted.`));
  }

  function drawScatter(figure, width) {
    const size = Math.min(width, 400);
    const box = { left: 40, right: size - 6, top: 8, bottom: size - 42 };
    const x = scale([0, 1], [box.left, box.right]);
    const y = scale([0, 1], [box.bottom, box.top]);
    const node = chart(width, size, `${metricName(view.metric)} of every query: ${name(view.b)} across, ${name(view.a)} upwards.`,
      { tabindex: 0, role: "group", "aria-roledescription": "scatter plot" });
    const grid = ticks(0, 1, 5);
    node.append(...gridLines(grid, y, box.left, box.right),
      ...grid.values.map((v) => svg("text", { x: x(v), y: box.bottom + 18, "text-anchor": "middle" }, decimal(v, 1))),
      svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
      svg("path", { class: "guide", d: path([[x(0), y(0)], [x(1), y(1)]]) }));
    // Points in a few layers, so that a crowd is darker than one query.
    const layers = 12;
    const [first, second] = colours();
    const radius = pairs.length > 1500 ? 3 : pairs.length > 300 ? 4.5 : 6;
    const groups = [[(p) => p.d > 0, first], [(p) => p.d === 0, "var(--soft)"], [(p) => p.d < 0, second]];
    for (const [keep, colour] of groups) {
      const points = pairs.filter(keep);
      for (let layer = 0; layer < Math.min(layers, points.length); layer += 1) {
        const d = points.filter((_, n) => n % layers === layer).map((p) => `M${x(p.b).toFixed(1)} ${y(p.a).toFixed(1)}h0`).join("");
        node.append(svg("path", { d, stroke: colour, "stroke-width": radius, "stroke-linecap": "round", opacity: 0.55 }));
      }
    }
    node.append(
      svg("text", { class: "strong", x: box.left + 8, y: box.top + 14 }, fitText(`${name(view.a)} ↑`, (box.right - box.left) / 2)),
      svg("text", { class: "strong", x: box.right, y: box.bottom + 36, "text-anchor": "end" }, `${name(view.b)} →`));
    const mark = svg("circle", { class: "mark", r: 7, visibility: "hidden" });
    node.append(mark);
    const place = (n) => [x(pairs[n].b), y(pairs[n].a)];
    marks.push((n) => {
      mark.setAttribute("visibility", n === null ? "hidden" : "visible");
      if (n !== null) fill(mark, { cx: place(n)[0], cy: place(n)[1] }, []);
    });
    listen(node, place, ([px, py]) => nearestPoint(place, px, py));
    figure.replaceChildren(node, html("figcaption", {}, "One point a query; above the diagonal the first method is better."));
  }

  function nearestPoint(place, px, py) {
    let [best, least] = [null, 24 ** 2];
    pairs.forEach((_, n) => {
      const [x, y] = place(n);
      const distance = (x - px) ** 2 + (y - py) ** 2;
      if (distance < least) [best, least] = [n, distance];
    });
    return best;
  }

  /** Point at queries with the pointer or with the arrow keys. */
  function listen(node, place, find) {
    const tell = (n) => {
      point(n);
      if (n === null) return;
      tooltip.show(() => pointOut(node, ...place(n)), `Query ${data.queries.id[pairs[n].q]}`, describe(pairs[n]));
    };
    const follow = (event) => { if (pairs.length) tell(find(pointIn(node, event))); };
    node.addEventListener("pointermove", follow);
    node.addEventListener("pointerdown", follow);
    node.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") tell(null); });
    node.addEventListener("blur", () => tell(null));
    node.addEventListener("keydown", (event) => {
      const last = pairs.length - 1;
      const here = view.at;
      const moves = {
        ArrowRight: () => (here === null ? 0 : Math.min(last, here + 1)),
        ArrowLeft: () => (here === null ? last : Math.max(0, here - 1)),
        PageDown: () => Math.min(last, (here ?? 0) + 10), PageUp: () => Math.max(0, (here ?? 0) - 10),
        Home: () => 0, End: () => last, Escape: () => null,
      };
      if (!moves[event.key] || last < 0) return;
      event.preventDefault();
      tell(moves[event.key]());
    });
  }

  function point(n) {
    view.at = n;
    for (const mark of marks) mark(n);
    if (n === null) tooltip.hide();
  }

  function describe(p) {
    const rows = [[name(view.a), decimal(p.a)], [name(view.b), decimal(p.b)], ["difference", signed(p.d, 4)]];
    if (data.cases.length > 1) rows.push(["fold", data.cases[data.queries.fold[p.q]]]);
    for (const i of [view.a, view.b]) {
      if (data.why[i][p.q]) rows.push([`${name(i)}: first above second`, data.why[i][p.q]]);
    }
    return rows;
  }

  function drawLists() {
    const most = 6;
    const gains = pairs.filter((p) => p.d > 0).slice(0, most);
    const losses = pairs.filter((p) => p.d < 0).slice(-most).reverse();
    byRole(root, "lists").replaceChildren(
      list(`Where ${name(view.a)} gains most`, gains), list(`Where ${name(view.b)} gains most`, losses));
  }

  function list(title, chosen) {
    const folds = data.cases.length > 1;
    const head = ["Query", name(view.a), name(view.b), "Difference"];
    const body = chosen.map((p) => {
      const show = () => point(pairs.indexOf(p));
      const id = html("button", { type: "button", class: "link", on: { click: show, focus: show, blur: () => point(null), pointerenter: show, pointerleave: () => point(null) } }, data.queries.id[p.q]);
      const fold = folds ? html("span", { class: "small" }, ` ${data.cases[data.queries.fold[p.q]]}`) : null;
      return html("tr", {}, html("td", { class: "query" }, id, fold),
        html("td", {}, decimal(p.a, 3)), html("td", {}, decimal(p.b, 3)), html("td", {}, signed(p.d)));
    });
    const table = html("table", {}, html("thead", {}, html("tr", {}, head.map((text) => html("th", { scope: "col" }, text)))), html("tbody", {}, body));
    return html("div", {}, html("h3", {}, title),
      body.length ? html("div", { class: "scroll wrap-head", tabindex: 0, role: "region", "aria-label": title }, table) : html("p", { class: "small" }, "On no query."));
  }

  function drawControls() {
    const options = (other) => usable.map((i) => ({ value: String(i), text: name(i), disabled: i === other }));
    const change = (key) => (value) => { view[key] = key === "metric" ? value : Number(value); refresh(); };
    const swap = html("button", { type: "button", class: "quiet", on: { click: () => { [view.a, view.b] = [view.b, view.a]; refresh(); byRole(root, "controls").querySelector(".quiet").focus(); } } }, "Swap");
    const controls = byRole(root, "controls");
    const focused = [...controls.querySelectorAll("select")].indexOf(document.activeElement);
    controls.replaceChildren(
      chooser("First method", options(view.b), String(view.a), change("a")),
      chooser("Second method", options(view.a), String(view.b), change("b")), swap,
      chooser("Metric", data.metrics.map((m) => ({ value: m, text: metricName(m) })), view.metric, change("metric")));
    if (focused >= 0) controls.querySelectorAll("select")[focused].focus();
  }

  const holder = byRole(root, "figures");
  const figures = [html("figure"), html("figure")];
  holder.append(...figures);
  function drawFigures() {
    marks.length = 0;
    drawBars(figures[0], figures[0].clientWidth);
    drawScatter(figures[1], figures[1].clientWidth);
  }

  function refresh() {
    compute();
    drawControls();
    drawSummary();
    redrawFigures();
    drawLists();
  }
  compute();
  const redrawFigures = responsive(holder, drawFigures);
  refresh();
};
