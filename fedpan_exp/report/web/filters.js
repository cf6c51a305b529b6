// One set of filters for curves, pairs, heat map, partitions and runs. An empty filter lets every run pass.
const FACETS = { study: "Study", algorithm: "Algorithm", dataset: "Dataset", pan: "PAN" };
const selected = Object.fromEntries(Object.keys(FACETS).map((facet) => [facet, new Set()]));
const listeners = [];

const passes = (item) => Object.keys(FACETS).every((facet) => !selected[facet].size || item[facet] === undefined || selected[facet].has(item[facet]));
const passesExceptPan = (item) => Object.keys(FACETS).every((facet) => facet === "pan" || !selected[facet].size || selected[facet].has(item[facet]));
const filtered = () => data.runs.filter(passes);

// A label of each run from the settings in which these runs differ, without PAN and seed.
function namesFor(runs) {
  const varying = data.varying.map((_, i) => i).filter((i) => !/^(pan\.|seed$)/.test(data.varying[i]) && new Set(runs.map((run) => run.settings[i])).size > 1);
  const label = (run, i) => (/\.name$/.test(data.varying[i]) ? run.settings[i] : `${data.varying[i].split(".").pop()}=${run.settings[i]}`);
  return (run) => varying.filter((i) => run.settings[i] !== "–").map((i) => label(run, i)).join(", ");
}

function showFilters() {
  const count = make("span", { class: "soft small", role: "status" });
  const rows = Object.entries(FACETS).map(([facet, label]) => {
    const values = [...new Set(data.runs.map((run) => run[facet]))].sort();
    if (values.length < 2) return null;
    const buttons = values.map((value) => {
      const button = make("button", { type: "button", "aria-pressed": "false", "data-facet": facet, "data-value": value }, value);
      button.addEventListener("click", () => {
        const set = selected[facet];
        if (!set.delete(value)) set.add(value);
        button.setAttribute("aria-pressed", set.has(value));
        changed();
      });
      return button;
    });
    return make("div", { class: "chips", role: "group", "aria-label": label }, make("span", {}, label), make("div", {}, ...buttons));
  });
  const clear = make("button", { type: "button", id: "clear" }, "Clear");
  clear.addEventListener("click", (event) => {
    event.preventDefault(); // the button is in the summary, which would close
    Object.values(selected).forEach((set) => set.clear());
    document.querySelectorAll("#filters [aria-pressed]").forEach((button) => button.setAttribute("aria-pressed", "false"));
    changed();
  });
  const changed = () => {
    count.textContent = ` ${filtered().length} of ${data.runs.length} runs`;
    listeners.forEach((listener) => listener());
  };
  const open = matchMedia("(min-width: 641px)").matches;
  fill("filters", make("details", { open }, make("summary", {}, "Filter", count, clear), ...rows.filter(Boolean)));
  changed();
}
