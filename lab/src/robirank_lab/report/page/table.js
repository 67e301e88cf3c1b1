// One row a method; every column sorts, and is the first on a phone; a row opens to show what was chosen on each fold.

sections.table = (root) => {
  const reference = data.methods[data.emphasis].name;
  const against = data.comparisons.filter((c) => c.baseline === reference);
  const metrics = [...new Set(against.map((c) => c.metric))];
  const view = {
    sort: null, descending: true,
    metric: metrics.includes(data.lead) ? data.lead : metrics[0],
  };
  const cutoffs = [1, 3, 5, 10].filter((k) => k <= data.kMax);
  const shown = [...cutoffs.map((k) => `ndcg@${k}`), "mean_ndcg", "map"];
  const fitsOf = data.methods.map((_, i) => data.fits.filter((fit) => fit.method === i));
  const rows = data.methods.map((method, i) => makeRow(method, i));

  const best = Object.fromEntries(shown.map((m) => [m, Math.max(...data.means.map((mean) => mean[m] ?? -1))]));

  const name = { id: "method", title: "Method", value: (i) => data.methods[i].name.toLowerCase(), cells: nameCell, left: true };
  const others = () => [
    ...shown.map((m) => ({ id: m, title: metricName(m), value: (i) => data.means[i][m], cells: (i) => meanCell(i, m), high: true })),
    ...(metrics.length ? [{
      id: "difference", title: `${metricName(view.metric)} less ${reference}`, cells: differenceCells,
      value: (i) => (i === data.emphasis ? 0 : comparison(i)?.difference), high: true, span: 2,
    }] : []),
    ...(anyCertainty() ? [{ id: "p", title: "adjusted\u00a0p", value: (i) => comparison(i)?.p_adjusted, cells: pCell }] : []),
    ...(data.fits.length ? [{ id: "seconds", title: "Seconds a fold", value: seconds, cells: (i) => html("td", {}, inSeconds(seconds(i))) }] : []),
  ];
  const columns = () => [name, ...(isNarrow() ? others().sort((a, b) => (b.id === view.sort) - (a.id === view.sort)) : others())];

  /** Whether any adjusted p-value is below 1; else they say nothing. */
  function anyCertainty() {
    return data.methods.some((_, i) => (comparison(i)?.p_adjusted ?? 1) <= 0.9995);
  }

  function comparison(i) {
    return against.find((c) => c.metric === view.metric && c.method === data.methods[i].name);
  }

  /** The search on a fold, of which the final fit is a part: the mean over folds, as in table.md. */
  function seconds(i) {
    if (data.methods[i].state !== "ok" || !fitsOf[i].length) return null;
    return sum(fitsOf[i].map((fit) => fit.search_seconds)) / fitsOf[i].length;
  }

  function makeRow(method, i) {
    const id = `fits-${i}`;
    const open = html("button", {
      type: "button", class: "open", "aria-expanded": "false", "aria-controls": id,
      on: { click: () => expand(i) },
    }, method.name);
    const row = html("tr", { class: i === data.emphasis ? "emphasis" : null, "data-method": method.name, title: method.note });
    const more = html("tr", { class: "more", id, hidden: true });
    return { row, more, open };
  }

  function expand(i) {
    const { more, open } = rows[i];
    more.hidden = !more.hidden;
    open.setAttribute("aria-expanded", String(!more.hidden));
    if (!more.hidden && !more.firstChild) more.append(details(i));
  }

  function details(i) {
    const width = columns().reduce((n, column) => n + (column.span ?? 1), 0);
    const selectName = metricName(data.select);
    const head = ["Fold", "Chosen setting", `Validation ${selectName}`, "Search", "Final fit"];
    const body = fitsOf[i].map((fit) => {
      const fold = html("td", {}, data.cases[fit.case]);
      if (fit.error !== null) {
        return html("tr", {}, fold, html("td", { class: "left message", colspan: 4 }, `failed: ${fit.error}`));
      }
      return html("tr", {}, fold, html("td", { class: "left" }, setting(fit.params)),
        html("td", {}, decimal(fit.validation)), html("td", {}, duration(fit.search_seconds)),
        html("td", {}, duration(fit.final_seconds)));
    });
    if (!body.length) return html("td", { colspan: width }, "Nothing is known about how this was fitted.");
    return html("td", { colspan: width }, html("table", {},
      html("thead", {}, html("tr", {}, head.map((text, n) => html("th", { scope: "col", class: n < 2 ? "left" : null }, text)))),
      html("tbody", {}, body)));
  }

  function nameCell(i) {
    const { state, note } = data.methods[i];
    const badge = state === "ok" ? null : html("span", { class: "badge", title: note }, state === "failed" ? "failed" : "unfinished");
    return html("th", { scope: "row" }, rows[i].open, badge);
  }

  function meanCell(i, m) {
    const value = data.means[i][m];
    return html("td", { class: looksLike(value, best[m]) ? "best" : null }, decimal(value));
  }

  function differenceCells(i) {
    const c = comparison(i);
    if (i === data.emphasis) return html("td", { colspan: 2, class: "none" }, "the reference");
    if (!c || c.difference === null) {
      return [html("td", { class: "none" }, forest(null)), html("td", { class: "none" }, NONE)];
    }
    const bounds = c.low === null || c.high === null ? "" : ` ${interval(c.low, c.high)}`;
    return [
      html("td", {}, forest(c, look(i).colour)),
      html("td", {}, signed(c.difference), html("span", { class: "none" }, bounds)),
    ];
  }

  function pCell(i) {
    if (i === data.emphasis) return html("td");
    const p = comparison(i)?.p_adjusted ?? null;
    return html("td", { class: p === null ? "none" : p < 0.05 ? "certain" : null }, pValue(p));
  }

  /** A difference and its interval as a picture, on one scale for all rows. */
  function forest(c, colour) {
    const all = against.filter((a) => a.metric === view.metric).flatMap((a) => [a.difference, a.low, a.high]);
    const reach = Math.max(1e-6, ...all.filter((v) => v !== null && v !== undefined).map(Math.abs));
    const low = Math.min(0, ...all.filter((v) => v !== null)) - reach * 0.04;
    const high = Math.max(0, ...all.filter((v) => v !== null)) + reach * 0.04;
    const x = scale([low, high], [4, 84]);
    const node = svg("svg", { class: "forest", viewBox: "0 0 88 16", "aria-hidden": "true", focusable: "false" },
      svg("line", { class: "axis", x1: x(0), x2: x(0), y1: -6, y2: 22 }));
    if (!c) return node;
    if (c.low !== null && c.high !== null) {
      node.append(svg("line", { class: "interval", x1: x(c.low), x2: x(c.high), y1: 8, y2: 8, stroke: colour }));
    }
    node.append(svg("circle", { cx: x(c.difference), cy: 8, r: 3.5, fill: colour }));
    return node;
  }

  function sortBy(column) {
    if (view.sort === column.id) view.descending = !view.descending;
    else [view.sort, view.descending] = [column.id, Boolean(column.high)];
    if (isNarrow()) refresh();
    else order();
    head.querySelector(`[data-column="${CSS.escape(column.id)}"] button`).focus();
    announce(`Sorted by ${column.title}, ${view.descending ? "descending" : "ascending"}`);
  }

  /** Put the rows in order; what has no value stays at the end. */
  function order() {
    const column = columns().find(({ id }) => id === view.sort);
    const sign = view.descending ? -1 : 1;
    const compare = (i, j) => {
      const [a, b] = [column.value(i) ?? null, column.value(j) ?? null];
      if (a === null || b === null) return (a === null) - (b === null) || i - j;
      return sign * (a < b ? -1 : a > b ? 1 : 0) || i - j;
    };
    const places = data.methods.map((_, i) => i).sort(compare);
    body.replaceChildren(...places.flatMap((i) => [rows[i].row, rows[i].more]));
    for (const th of head.querySelectorAll("th")) {
      const active = th.dataset.column === view.sort;
      if (active) th.setAttribute("aria-sort", view.descending ? "descending" : "ascending");
      else th.setAttribute("aria-sort", "none");
    }
  }

  const head = html("tr");
  const body = html("tbody");
  function drawHead() {
    head.replaceChildren(...columns().map((column) => html("th", {
      scope: "col", "data-column": column.id, colspan: column.span, class: column.left ? "left" : null,
    }, html("button", { type: "button", class: "sort", on: { click: () => sortBy(columns().find(({ id }) => id === column.id)) } }, column.title))));
  }

  function refresh() {
    if (!columns().some(({ id }) => id === view.sort)) view.sort = shown[0];
    drawHead();
    rows.forEach(({ row }, i) => row.replaceChildren(...columns().flatMap((column) => column.cells(i))));
    order();
  }

  if (metrics.length > 1) {
    byRole(root, "controls").append(chooser("Differences in",
      metrics.map((m) => ({ value: m, text: metricName(m) })), view.metric,
      (value) => { view.metric = value; refresh(); }));
  }
  const certainty = metrics.length
    ? ` Differences stand with their 95 % intervals; an adjusted p below .05 is bold, and a column in which all are 1 is left out.` : "";
  const time = data.fits.length ? " Seconds a fold are those of the search, of which the final fit is a part. Open a row to see what was chosen on each fold." : "";
  byRole(root, "lede").textContent = `The best mean of a column is bold.${certainty}${time}`;
  view.sort = shown.includes(data.lead) ? data.lead : shown[0];
  const holder = byRole(root, "table");
  fill(holder, { tabindex: 0, role: "region", "aria-labelledby": "table-title" }, [
    html("table", { class: "stick", "aria-labelledby": "table-title" }, html("thead", {}, head), body)]);
  refresh();
  window.matchMedia(NARROW).addEventListener("change", refresh);
};
