// Seconds on a log scale: a fit may take a thousand times as long with one method as with another.

sections.times = (root) => {
  const figure = byRole(root, "figure");
  const rows = data.methods.map((_, i) => measured(i)).filter((row) => row !== null)
    .sort((a, b) => a.final - b.final);
  if (!rows.length) {
    byRole(root, "lede").textContent = "This run has no times.";
    return;
  }
  byRole(root, "lede").textContent = `Seconds for one ${foldName()}, the mean over ${foldName()}s. A filled dot is the final fit, a ring the whole search for its setting.`;

  function measured(i) {
    const fits = data.fits.filter((fit) => fit.method === i && fit.error === null);
    if (!fits.length) return null;
    const mean = (name) => sum(fits.map((fit) => fit[name])) / fits.length;
    return { i, search: mean("search_seconds"), final: mean("final_seconds") };
  }

  function draw(width) {
    const narrow = isNarrow();
    const rowHeight = narrow ? 34 : 25;
    const text = ({ search, final }) => (search ? `${duration(final)} · ${duration(search)}` : duration(final));
    const names = Math.max(...rows.map(({ i }) => textWidth(data.methods[i].name, 600)));
    const left = narrow ? 6 : Math.min(names, 200) + 14;
    const right = width - (narrow ? 8 : Math.max(...rows.map((row) => textWidth(text(row)))) + 18);
    const bottom = 6 + rows.length * rowHeight;
    const floor = 1e-4;
    const all = rows.flatMap(({ search, final }) => [final, search ?? final]).map((v) => Math.max(v, floor));
    const decades = [Math.floor(Math.log10(Math.min(...all))), Math.ceil(Math.log10(Math.max(...all)))];
    if (decades[0] === decades[1]) decades[1] += 1;
    const x10 = scale(decades, [left + 6, right]);
    const x = (seconds) => x10(Math.log10(Math.max(seconds, floor)));
    const node = chart(width, bottom + 26, `Training times: ${rows.map((row) => `${data.methods[row.i].name} ${duration(row.final)}`).join(", ")}`);
    const skip = Math.ceil((decades[1] - decades[0] + 1) / (narrow ? 5 : 9));
    for (let power = decades[0]; power <= decades[1]; power += 1) {
      const place = x10(power);
      node.append(svg("line", { class: "grid", x1: place, x2: place, y1: 0, y2: bottom }));
      if ((power - decades[0]) % skip === 0) node.append(svg("text", { x: place, y: bottom + 18, "text-anchor": "middle" }, axisTime(power)));
    }
    rows.forEach((row, n) => {
      const y = 6 + (n + (narrow ? 0.7 : 0.5)) * rowHeight;
      const { colour, emphasis } = look(row.i);
      const style = `name${emphasis ? " emphasis" : ""}`;
      const name = fitText(data.methods[row.i].name, narrow ? width * 0.55 : 200);
      node.append(narrow
        ? svg("text", { class: style, x: 0, y: y - 11 }, name)
        : svg("text", { class: style, x: left - 12, y, dy: "0.35em", "text-anchor": "end" }, name));
      node.append(svg("text", { x: width, y: narrow ? y - 11 : y, dy: narrow ? 0 : "0.35em", "text-anchor": "end" }, text(row)));
      if (row.search) {
        node.append(svg("line", { x1: x(row.final), x2: x(row.search), y1: y, y2: y, stroke: colour, "stroke-width": emphasis ? 2.5 : 1.5, opacity: 0.5 }),
          svg("circle", { cx: x(row.search), cy: y, r: 4.5, fill: "var(--paper)", stroke: colour, "stroke-width": 1.8 }));
      }
      node.append(svg("circle", { cx: x(row.final), cy: y, r: 5.5, fill: colour }));
    });
    figure.replaceChildren(node, html("figcaption", {}, "Log scale. At the right: final fit · search."));
  }

  function axisTime(power) {
    return power < 0 ? `${10 ** (power + 3)} ms`.replace(/^0\.1 /, "0.1 ") : `${(10 ** power).toLocaleString("en")} s`;
  }

  responsive(figure, draw);
};
