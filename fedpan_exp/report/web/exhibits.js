// A card an exhibit: the figure, the paper's words and numbers beside ours, the table, the command.
function showExhibits() {
  const several = (name) => data.exhibits.filter((exhibit) => exhibit.name === name).length > 1;
  const index = [
    ...data.exhibits.map((exhibit, i) => make("a", { href: `#exhibit-${i}`, class: exhibit.svg ? "" : "lacking" }, several(exhibit.name) ? exhibit.id : exhibit.name)),
    ...data.missing.map((exhibit) => make("a", { href: "#overview", class: "lacking", title: "missing" }, exhibit.name)),
  ];
  const cards = data.exhibits.map(exhibitCard);
  const nothing = make("p", { class: "soft" }, "No sweep has been listed here yet; the runs are shown below.");
  fill("exhibits", title("exhibits", "Exhibits"), index.length ? make("div", { class: "index" }, ...index) : nothing, ...cards);
}

function exhibitCard(exhibit, i) {
  const isPaper = exhibit.departures.length === 0;
  const badge = make("span", { class: `badge ${isPaper ? "" : "warn"}` }, isPaper ? "the paper's setting" : `not the paper's setting: scale ${exhibit.scale}`);
  const size = make("span", { class: "badge" }, `${exhibit.runs} runs, ${exhibit.seeds} ${exhibit.seeds === 1 ? "seed" : "seeds"}`);
  const heading = make("div", { class: "head" }, make("h3", {}, exhibit.title), make("code", {}, exhibit.name), badge, size);
  const parts = [heading, make("p", {}, make("span", { class: "soft" }, "The paper: "), exhibit.says)];
  if (exhibit.departures.length) parts.push(make("p", { class: "small soft" }, `Ours: ${exhibit.departures.join("; ")}.`));
  parts.push(...exhibit.marks.map((mark) => make("p", { class: "note small" }, mark)));
  if (exhibit.trouble) parts.push(make("p", { class: "note" }, exhibit.trouble));
  if (exhibit.svg) {
    parts.push(figure(exhibit));
    if (exhibit.claims.length) parts.push(table(["claim", "paper", "ours", "difference"], exhibit.claims, false));
    const files = [["figures", "svg"], ["figures", "png"], ["tables", "md"], ["tables", "tex"], ["tables", "csv"]];
    const links = files.flatMap(([folder, ending]) => [make("a", { href: `./${folder}/${encodeURIComponent(exhibit.stem)}.${ending}` }, ending.toUpperCase()), " "]);
    parts.push(...exhibit.notes.map((note) => make("p", { class: "small soft" }, note)));
    const whole = make("details", {}, make("summary", {}, `Table, ${exhibit.table.rows.length} rows`));
    whole.addEventListener("toggle", () => whole.childElementCount > 1 || whole.append(table(exhibit.table.columns, exhibit.table.rows)));
    parts.push(whole, make("p", { class: "small soft" }, "Files: ", ...links));
  }
  parts.push(command(exhibit.command));
  return make("article", { class: "card exhibit", id: `exhibit-${i}`, "aria-label": exhibit.title }, ...parts);
}

function figure(exhibit) {
  const [, width, height] = exhibit.svg.match(/viewBox="0 0 ([\d.]+) ([\d.]+)"/) || [0, 720, 400];
  const image = make("img", { alt: `${exhibit.title}; its numbers are in the table below`, loading: "lazy", decoding: "async" });
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(exhibit.svg)}`;
  image.width = Math.round(width);
  image.height = Math.round(height);
  image.style.maxWidth = `${Math.round(width * 1.45)}px`;
  if (width > 560) image.classList.add("wide");
  return make("div", { class: "figure" }, image);
}
