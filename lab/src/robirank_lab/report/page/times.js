// Seconds on a log scale: a fit may take a thousand times as long with one method as with another.

sections.times = (root) => {
  const figure = byRole(root, "figure");
  const rows = data.methods.map((_, i) => seconds(i)).filter((row) => row !== null)
    .sort((a, b) => a.final - b.final);
  if (!rows.length) {
    byRole(root, "lede").textContent = "This run has no times.";
    return;
  }
  byRole(root, "lede").textContent = `Seconds for one ${data.caseNoun}, the mean over ${data.caseNoun}s. A filled dot is the final fit, a ring the whole search for its setting.`;

  function seconds(i) {
    const fits = data.fits.filter((fit) => fit.method === i && fit.error === null);
    if (!fits.length) return null;
    const mean = (name) => sum(fits.map((fit) => fit[name])) / fits.length;
    return { i, search: mean("search_seconds"), final: mean("final_seconds") };
  }

  function draw(width) {
    const power = (t) => Math.log10(Math.max(t, 1e-4));
    const powers = rows.flatMap(({ search, final }) => [final, search || final]).map(power);
    const range = [Math.floor(Math.min(...powers)), Math.ceil(Math.max(...powers) + 1e-9)];
    const names = rows.map(({ i }) => data.methods[i].name);
    const { node, x, y } = rowChart(width, `Training times: ${rows.map(({ final }, n) => `${names[n]} ${duration(final)}`).join(", ")}`, {
      names, range, marks: ticks(...range, isNarrow() ? 4 : 8).values.filter(Number.isInteger), markText: (p) => duration(10 ** p),
      emphasis: rows.map(({ i }) => i === data.emphasis),
      ends: rows.map(({ search, final }) => (search ? `${duration(final)} · ${duration(search)}` : duration(final))),
    });
    rows.forEach(({ i, search, final }, n) => {
      const { colour, emphasis } = look(i);
      if (search) {
        node.append(svg("line", { x1: x(power(final)), x2: x(power(search)), y1: y(n), y2: y(n), stroke: colour, "stroke-width": emphasis ? 2.5 : 1.5, opacity: 0.5 }),
          svg("circle", { cx: x(power(search)), cy: y(n), r: 4.5, fill: "var(--paper)", stroke: colour, "stroke-width": 1.8 }));
      }
      node.append(svg("circle", { cx: x(power(final)), cy: y(n), r: 5.5, fill: colour }));
    });
    figure.replaceChildren(node, html("figcaption", {}, "Log scale. At the right: final fit · search."));
  }

  responsive(figure, draw);
};
