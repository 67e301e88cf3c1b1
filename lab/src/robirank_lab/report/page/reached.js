// One row a latent method: what it reached at the end, with which setting, in what time.

sections.reached = (root) => {
  const several = data.cases.length > 1;
  const best = Object.fromEntries(data.metrics.map((m) => [m, Math.max(...data.means.map((mean) => mean[m] ?? -1))]));
  const order = data.methods.map((_, i) => i)
    .sort((a, b) => (data.means[b][data.lead] ?? -1) - (data.means[a][data.lead] ?? -1) || a - b);

  function cell(i, m) {
    const value = data.means[i][m];
    if (value === undefined) return html("td", { class: "none" }, NONE);
    const { error, spread: deviation } = data.learning[i];
    const about = (several ? deviation : error)[m].at(-1);
    return html("td", { class: looksLike(value, best[m]) ? "best" : null }, decimal(value),
      html("span", { class: "none" }, about === null ? "" : ` ± ${decimal(about)}`));
  }

  function row(i) {
    const { name, state, note } = data.methods[i];
    const badge = state === "ok" ? null : html("span", { class: "badge", title: note }, state === "failed" ? "failed" : "unfinished");
    const fits = data.fits.filter((fit) => fit.method === i);
    const failed = fits.find((fit) => fit.error !== null);
    const head = html("th", { scope: "row" }, name, badge);
    if (failed) {
      return html("tr", { "data-method": name }, head,
        html("td", { class: "left message", colspan: data.metrics.length + 3 }, failed.error.split("\n")[0]));
    }
    return html("tr", { class: i === data.emphasis ? "emphasis" : null, "data-method": name }, head,
      data.metrics.map((m) => cell(i, m)),
      html("td", { class: "left wrap" }, fits.length ? setting(fits[0].params) : NONE),
      html("td", {}, inSeconds(data.learning[i]?.seconds.at(-1))),
      html("td", {}, fits.length ? inSeconds(sum(fits.map((fit) => fit.search_seconds))) : NONE));
  }

  const about = several
    ? `± is the standard deviation over ${data.cases.length} starting points.`
    : "± is the standard error of the mean over users.";
  byRole(root, "lede").textContent = `The best mean of a column is bold. ${about}`;
  const titles = ["Method", ...data.metrics.map(metricName), "Chosen setting", "Training,\u00a0s", "Search,\u00a0s"];
  fill(byRole(root, "table"), { tabindex: 0, role: "region", "aria-labelledby": "reached-title" }, [
    html("table", { class: "stick", "aria-labelledby": "reached-title" },
      html("thead", {}, html("tr", {}, titles.map((text, n) => html("th", { scope: "col", class: n === 0 || text === "Chosen setting" ? "left" : null }, text)))),
      html("tbody", {}, order.map(row)))]);
};
