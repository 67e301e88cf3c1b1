// The page itself: heading, sections of this kind of run, what explains and reproduces it.

const TITLES = {
  curves: "Curves", table: "Table", queries: "Queries", settings: "Settings", times: "Times",
  learning: "Learning", reached: "Table", speed: "Precision", work: "Time", parts: "Parts",
  noise: "Curves", areas: "Areas",
};

function drawHeading() {
  document.getElementById("title").textContent = data.title;
  document.getElementById("overline").textContent = data.overline;
  document.getElementById("findings").append(...data.findings.map((text) => html("p", {}, text)));
  document.getElementById("facts").append(...Object.entries(data.facts).map(([term, value]) => html("div", {},
    html("dt", {}, term), html("dd", {}, value))));
}

/** Fill the explanations for this kind of run with its numbers, and remove what does not apply. */
function drawMethod() {
  for (const list of document.querySelectorAll("#method dl")) {
    if (list.dataset.kind !== data.kind) list.remove();
  }
  for (const node of document.querySelectorAll("#method [data-if]")) {
    const [name, wanted] = node.dataset.if.split("=");
    if (wanted ? data.how[name] !== wanted : !data.how[name]) node.remove();
  }
  for (const node of document.querySelectorAll("#method [data-value]")) {
    node.textContent = data.how[node.dataset.value].toLocaleString("en");
  }
}

function drawFooter() {
  const { command, versions, cores, created, seed } = data.run;
  if (command) {
    const status = html("span", { class: "small", role: "status" });
    const copy = html("button", { type: "button", class: "quiet copy", on: {
      click: () => navigator.clipboard?.writeText(command).then(() => { status.textContent = "copied"; }, () => { status.textContent = "select it and copy it by hand"; }),
    } }, "Copy");
    document.getElementById("reproduce").append(html("h3", {}, "To reproduce this run"),
      html("div", { class: "command" }, html("pre", { tabindex: 0 }, html("code", {}, command)), html("div", {}, copy, " ", status)));
  }
  const parts = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  parts.push(count(cores, "core"), `seed ${seed}`, created.replace("T", " ").replace("+00:00", " UTC"));
  document.getElementById("versions").textContent = parts.join(" · ");
}

/** Links to the sections; the one that is read is marked, and brought into sight on a phone. */
function drawContents() {
  const bar = document.getElementById("contents");
  const links = new Map([...data.sections.map((name) => [name, TITLES[name]]), ["method", "Method"]]
    .map(([id, text]) => [id, html("a", { href: `#${id}` }, text)]));
  bar.append(...links.values());
  const follow = () => {
    const line = bar.getBoundingClientRect().bottom + window.innerHeight / 4;
    const begun = [...links.keys()].filter((id) => document.getElementById(id).getBoundingClientRect().top < line);
    const atEnd = window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 2;
    const now = atEnd && window.scrollY > 0 ? [...links.keys()].at(-1) : begun.at(-1);
    for (const [id, link] of links) {
      if ((id === now) === link.hasAttribute("aria-current")) continue;
      link.toggleAttribute("aria-current", id === now);
      if (id === now) bar.scrollTo({ left: link.offsetLeft - bar.clientWidth / 3 });
    }
  };
  document.addEventListener("scroll", follow, { passive: true });
  follow();
}

drawHeading();
drawMethod();
for (const root of document.querySelectorAll("main > section[hidden]")) {
  if (!data.sections.includes(root.id)) root.remove();
}
for (const name of data.sections) {
  const root = document.getElementById(name);
  root.hidden = false;
  sections[name](root);
}
drawContents();
drawFooter();
document.addEventListener("keydown", (event) => { if (event.key === "Escape") tooltip.hide(); });
