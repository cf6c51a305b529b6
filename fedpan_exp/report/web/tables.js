// Paired statistics, the cost of the target accuracy, and the table of runs with links to their files.
function showPaired() {
  const container = make("div", {});
  const update = () => {
    const rows = data.paired.rows.filter((row) => passes(row.facets)).map((row) => row.texts);
    container.replaceChildren(rows.length ? table(data.paired.columns, rows) : make("p", { class: "soft" }, "No setting was run with PANs off and on."));
  };
  const cost = data.target.rows.length ? make("details", {}, make("summary", {}, `Rounds, bytes and seconds to the target (${data.target.columns[2]})`), table(data.target.columns, data.target.rows)) : null;
  fill("paired", title("paired", "PANs off and on, in pairs"), make("div", { class: "card" },
    make("p", { class: "small soft" }, "The runs of a pair differ only in the PAN and train on the same batches. Accuracy is the mean of the last five tests. Intervals are bootstrapped over pairs; fewer than six pairs cannot give 95%, and the level they give is shown. A tie counts as half a win."),
    container, cost));
  listeners.push(update);
}

const COLUMNS = [["status", "status"], ["name", "run"], ["label", "setting"], ["pan", "PAN"], ["seed", "seed"], ["rounds", "rounds"], ["last5", "last five (%)"], ["best", "best (%)"]];
const sorting = { by: "name", down: false };

function showRuns() {
  const body = make("tbody", {});
  const heads = COLUMNS.map(([key, text]) => {
    const button = make("button", { type: "button" }, text);
    button.addEventListener("click", () => {
      Object.assign(sorting, { by: key, down: sorting.by === key && !sorting.down });
      update();
    });
    return make("th", { scope: "col", "data-key": key, class: ["rounds", "last5", "best"].includes(key) ? "number" : "" }, button);
  });
  const update = () => {
    const key = (run) => run[sorting.by] ?? -1;
    const order = (a, b) => (typeof key(a) === "number" ? key(a) - key(b) : String(key(a)).localeCompare(String(key(b)), undefined, { numeric: true }));
    const runs = filtered().sort((a, b) => (sorting.down ? order(b, a) : order(a, b)));
    heads.forEach((head) => head.setAttribute("aria-sort", head.dataset.key !== sorting.by ? "none" : sorting.down ? "descending" : "ascending"));
    const name = namesFor(runs);
    body.replaceChildren(...runs.map((run) => runRow(run, name(run))));
  };
  const head = make("thead", {}, make("tr", {}, ...heads, make("th", { scope: "col" }, "files")));
  fill("runs", title("runs", "Runs"), make("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "runs" }, make("table", {}, head, body)),
    make("p", { class: "small soft" }, "The folder tables/ next to this page has this table and the statistics as Markdown, LaTeX and CSV."));
  listeners.push(update);
}

function runRow(run, setting) {
  const links = Object.entries(run.links).flatMap(([name, href]) => [make("a", { href }, name), " "]);
  return make("tr", {}, make("td", {}, badge(run)), make("td", { class: "name" }, run.name), make("td", {}, setting), make("td", {}, run.pan),
    make("td", {}, run.seed), make("td", { class: "number" }, String(run.rounds)), make("td", { class: "number" }, percent(run.last5)), make("td", { class: "number" }, percent(run.best)), make("td", {}, ...links));
}
