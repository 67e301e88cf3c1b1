// One row a method: what it reached, and after how many seconds it was where others are at their best.

sections.goals = (root) => {
  const [lead] = data.measures;
  const last = (i) => data.learning[i].values[lead].at(-1);
  const methods = data.methods.map((_, i) => i).filter((i) => data.learning[i]).sort((a, b) => last(b) - last(a) || a - b);
  if (!methods.length) {
    byRole(root, "lede").textContent = "No method of this run has a result yet.";
    return;
  }

  function row(i) {
    const { values, seconds } = data.learning[i];
    const { params, wall_seconds: wall } = data.fits.find(({ method }) => method === i);
    return [data.methods[i].name, ...data.measures.map((m) => decimal(values[m].at(-1))), inSeconds(seconds.at(-1)),
      ...data.goals.map((goal) => inSeconds(goal.seconds[i])), inSeconds(wall), setting(params)];
  }

  byRole(root, "lede").textContent = `Measures at the end of the fit, and its processor seconds; the seconds after which ${measureName(lead)} is what others have at best; the wall time of the fit on this machine.`;
  plainTable(byRole(root, "table"), document.getElementById("goals-title").textContent,
    ["Method", ...data.measures.map(measureName), "Fit,\u00a0s", ...data.goals.map(({ name, value }) => `to ${name}, ${decimal(value)}`), "Wall,\u00a0s", "Setting"],
    methods.map(row));
};
