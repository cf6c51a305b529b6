// One card per figure of the paper: the figure, the paper's claims compared with ours, the table, the command.
function showFigures() {
  const several = (name) => data.figures.filter((figure) => figure.name === name).length > 1;
  const index = [
    ...data.figures.map((figure, i) => make("a", { href: `#figure-${i}`, class: figure.svg ? "" : "missing" }, several(figure.name) ? figure.id : figure.name)),
    ...data.missing.map((figure) => make("a", { href: "#overview", class: "missing", title: "missing" }, figure.name)),
  ];
  const cards = data.figures.map(figureCard);
  const nothing = make("p", { class: "soft" }, "No sweep was run yet; the runs are shown below.");
  fill("figures", title("figures", "Figures"), index.length ? make("div", { class: "index" }, ...index) : nothing, ...cards);
}

function figureCard(figure, i) {
  const isPaper = figure.differences.length === 0;
  const badge = make("span", { class: `badge ${isPaper ? "" : "warn"}` }, isPaper ? "the paper's setting" : `not the paper's setting: scale ${figure.scale}`);
  const size = make("span", { class: "badge" }, `${count(figure.runs, "run")}, ${count(figure.seeds, "seed")}`);
  const heading = make("div", { class: "head" }, make("h3", {}, figure.title), make("code", {}, figure.name), badge, size);
  const parts = [heading, make("p", {}, make("span", { class: "soft" }, "The paper: "), figure.statement)];
  if (figure.differences.length) parts.push(make("p", { class: "small soft" }, `Ours: ${figure.differences.join("; ")}.`));
  parts.push(...figure.warnings.map((warning) => make("p", { class: "warning small" }, warning)));
  if (figure.trouble) parts.push(make("p", { class: "warning" }, figure.trouble));
  if (figure.svg) {
    parts.push(figureImage(figure));
    if (figure.claims.length) parts.push(table(["claim", "paper", "ours", "difference"], figure.claims, false));
    const files = [["figures", "svg"], ["figures", "png"], ["tables", "md"], ["tables", "tex"], ["tables", "csv"]];
    const links = files.flatMap(([folder, ending]) => [make("a", { href: `./${folder}/${encodeURIComponent(figure.stem)}.${ending}` }, ending.toUpperCase()), " "]);
    parts.push(...figure.footnotes.map((footnote) => make("p", { class: "small soft" }, footnote)));
    const details = make("details", {}, make("summary", {}, `Table, ${count(figure.table.rows.length, "row")}`));
    details.addEventListener("toggle", () => details.childElementCount > 1 || details.append(table(figure.table.columns, figure.table.rows)));
    parts.push(details, make("p", { class: "small soft" }, "Files: ", ...links));
  }
  parts.push(command(figure.command));
  return make("article", { class: "card paper-figure", id: `figure-${i}`, "aria-label": figure.title }, ...parts);
}

function figureImage(figure) {
  const [, width, height] = figure.svg.match(/viewBox="0 0 ([\d.]+) ([\d.]+)"/) || [0, 720, 400];
  const image = make("img", { alt: `${figure.title}; its numbers are in the table below`, loading: "lazy", decoding: "async" });
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(figure.svg)}`;
  image.width = Math.round(width);
  image.height = Math.round(height);
  image.style.maxWidth = `${Math.round(width * 1.45)}px`;
  if (width > 560) image.classList.add("wide");
  return make("div", { class: "figure" }, image);
}
