// What was run, what is missing, what failed.
const KINDS = { done: "good", failed: "bad", damaged: "bad", unreadable: "bad", diverged: "warn", interrupted: "warn", running: "" };

function showOverview() {
  const drawn = data.figures.filter((figure) => figure.svg);
  const tile = (value, label, kind) => make("div", { class: `tile ${kind}` }, make("b", {}, String(value)), label);
  const tiles = [
    tile(data.runs.length, "runs", ""),
    ...Object.entries(data.statuses).map(([status, count]) => tile(count, status, KINDS[status] ?? "")),
    tile(drawn.length, "figures drawn", drawn.length ? "good" : ""),
    ...(data.missing.length ? [tile(data.missing.length, "figures missing", "warn")] : []),
  ];
  const list = (name) => [...new Set(data.runs.map((run) => run[name]))].sort().join(", ");
  const versions = [...new Set(data.runs.map((run) => run.versions))];
  const lines = [
    make("p", { class: "soft" }, `Datasets: ${list("dataset")}. Algorithms: ${list("algorithm")}. Studies: ${list("study")}.`),
    versions.length > 1
      ? make("p", { class: "warning" }, `The runs were made by ${versions.length} versions of the package: ${versions.slice(0, 4).join("; ")}.`)
      : make("p", { class: "soft" }, `Made by ${versions[0]}.`),
  ];
  const failed = data.runs.filter((run) => !run.complete);
  const problems = failed.map((run) => make("li", {}, badge(run), " ", run.name, make("div", { class: "soft small" }, run.trouble)));
  fill(
    "overview",
    make("h1", { id: "overview-title" }, "Position-aware neurons: what was run"),
    make("p", { class: "soft small" }, `built ${data.built}${data.watching ? ", rebuilt whenever a run changes; reload to see" : ""}`),
    make("div", { class: "tiles" }, ...tiles),
    ...lines,
    ...data.troubles.map((text) => make("p", { class: "warning" }, text)),
    failed.length
      ? make("details", { open: failed.length <= 6 }, make("summary", {}, `${count(failed.length, "run")} ${failed.length === 1 ? "is" : "are"} incomplete and left out of the statistics`), make("ul", { class: "plain" }, ...problems))
      : make("p", { class: "soft" }, "All runs are complete."),
    data.missing.length
      ? make(
          "details",
          {},
          make("summary", {}, `${count(data.missing.length, "figure")} of the paper ${data.missing.length === 1 ? "is" : "are"} missing; run these commands`),
          ...data.missing.map((figure) => make("div", {}, make("div", { class: "small soft" }, figure.title), command(figure.command)))
        )
      : null
  );
}
