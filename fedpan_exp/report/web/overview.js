// What was run, what is missing, what failed.
const KINDS = { done: "good", failed: "bad", damaged: "bad", unreadable: "bad", diverged: "warn", interrupted: "warn", running: "" };

function showOverview() {
  const drawn = data.exhibits.filter((exhibit) => exhibit.svg);
  const tile = (value, words, kind) => make("div", { class: `tile ${kind}` }, make("b", {}, String(value)), words);
  const tiles = [
    tile(data.runs.length, "runs", ""),
    ...Object.entries(data.statuses).map(([status, count]) => tile(count, status, KINDS[status] ?? "")),
    tile(drawn.length, "exhibits drawn", drawn.length ? "good" : ""),
    ...(data.missing.length ? [tile(data.missing.length, "exhibits missing", "warn")] : []),
  ];
  const list = (name) => [...new Set(data.runs.map((run) => run[name]))].sort().join(", ");
  const makers = [...new Set(data.runs.map((run) => run.maker))];
  const lines = [
    make("p", { class: "soft" }, `Datasets: ${list("dataset")}. Algorithms: ${list("algorithm")}. Studies: ${list("study")}.`),
    makers.length > 1
      ? make("p", { class: "note" }, `The runs were made by ${makers.length} versions of the program: ${makers.slice(0, 4).join("; ")}.`)
      : make("p", { class: "soft" }, `Made by ${makers[0]}.`),
  ];
  const failed = data.runs.filter((run) => !run.whole);
  const problems = failed.map((run) => make("li", {}, badge(run), " ", run.name, make("div", { class: "soft small" }, run.trouble)));
  fill(
    "overview",
    make("h1", { id: "overview-title" }, "Position-aware neurons: what was run"),
    make("p", { class: "soft small" }, `built ${data.built}${data.watching ? ", and again whenever a run moves on; reload to see" : ""}`),
    make("div", { class: "tiles" }, ...tiles),
    ...lines,
    ...data.troubles.map((text) => make("p", { class: "note" }, text)),
    failed.length
      ? make("details", { open: failed.length <= 6 }, make("summary", {}, `${failed.length} runs are not whole; statistics leave them out`), make("ul", { class: "plain" }, ...problems))
      : make("p", { class: "soft" }, "No run failed."),
    data.missing.length
      ? make(
          "details",
          {},
          make("summary", {}, `${data.missing.length} exhibits of the paper are missing; these commands make them`),
          ...data.missing.map((exhibit) => make("div", {}, make("div", { class: "small soft" }, exhibit.title), command(exhibit.command)))
        )
      : null
  );
}
