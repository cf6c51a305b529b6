// Filters, charts and the comparison of two runs; the URL has the state of all controls. Names that users gave are
// inserted as text: by textContent, or escaped in Plotly's labels, which interpret some tags.
const data = JSON.parse(document.getElementById("data").textContent);
const FACETS = ["study", "algorithm", "dataset", "pan", "status"];
const [FIRST_SHOWN, POINTS] = [8, 16000]; // lines; points of all lines together, unless all rounds are asked for
const all = (selector) => [...document.querySelectorAll(selector)];
const first = (selector) => document.querySelector(selector);
const chosen = (name) => first(`select[name=${name}]`).value;
const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const deviation = (values, m = mean(values)) => Math.sqrt(values.reduce((sum, value) => sum + (value - m) ** 2, 0) / (values.length - 1));
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const setting = (name, run) => data.settings[name][0][data.settings[name][1][run.index]];
const state = new URLSearchParams(location.search);
const passes = (item) => FACETS.every((facet) => !(facet in item) || !state.has(facet) || state.has(facet, item[facet]));

const bytesOf = (packed) => new Blob([Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0))]);
const unpack = (packed) => new Response(bytesOf(packed).stream().pipeThrough(new DecompressionStream("gzip"))).json();

function draw(section, traces, x, y, remark, more = {}) {
  const layout = structuredClone({ ...data.layout, ...data.layouts[section], ...more });
  const axis = (title, rest) => ({ ...rest, title: { text: plain(title) }, gridcolor: colour("line"), zeroline: false, automargin: true });
  const colours = { font: { color: colour("ink") }, hoverlabel: { bgcolor: colour("card") }, modebar: { bgcolor: "#0000", color: colour("soft"), activecolor: colour("ink") } };
  first(`#${section} [role=status]`).textContent = remark;
  return Plotly.react(first(`#${section} .chart`), traces, { ...layout, ...colours, xaxis: axis(x, layout.xaxis), yaxis: axis(y, layout.yaxis) }, data.config);
}

// Curves: a line per setting (mean over its seeds, with a band of one standard deviation) or per run.
const curves = { shown: null, latest: 0, line: 0, point: -1 };
const lines = () => data.lines[chosen("by")].filter((line) => passes(data.runs[line.runs[0]]));
const shownLines = () => curves.shown ?? new Set(lines().slice(0, FIRST_SHOWN).map((line) => line.name));
const show = (names) => { curves.shown = new Set(names); drawCurves(); };
const curveOf = (i) => (data.runs[i].columns ??= unpack(data.runs[i].curve).then((columns) => {
  for (const axis in data.axes) { let total = 0; columns[axis] = columns[axis].map((step) => (total += step)); }
  return columns;
}));

async function drawCurves() {
  const [shown, x, y, latest] = [shownLines(), chosen("x"), chosen("y"), ++curves.latest];
  const loaded = await Promise.all(lines().map((line) => Promise.all(shown.has(line.name) ? line.runs.map(curveOf) : [])));
  if (latest !== curves.latest) return; // a later change overtook this one
  const points = loaded.reduce((sum, [curve]) => sum + (curve ? curve.round.length : 0), 0);
  const every = chosen("rounds") === "all" ? 1 : Math.ceil(points / POINTS);
  const shade = Math.round(Math.min(38, 150 / shown.size)).toString(16).padStart(2, 0); // of bands, which overlap
  const traces = lines().flatMap((line, i) => tracesOf(line, loaded[i], x, y, every, shade));
  const remark = every > 1 ? `One of ${every} rounds is shown, without averaging; choose all rounds to see whole curves.` : "";
  const last = Math.max(...loaded.flat().map((curve) => curve.round.at(-1)));
  await draw("curves", traces, data.axes[x], data.metrics[y], remark, { uirevision: x + y, xaxis: x === "round" && last < 12 ? { dtick: 1 } : {} });
}

function tracesOf(line, columns, x, y, every, shade) {
  const common = { ...line.style, name: plain(line.label), meta: line.name, legendgroup: line.name };
  if (!columns.length || columns.some((each) => !each[y])) return [{ ...common, mode: "lines", x: [null], y: [null], visible: "legendonly" }];
  const rounds = columns[0].round;
  const at = [...rounds.keys()].filter((k) => (k % every === 0 || k === rounds.length - 1) && columns.every((each) => each[y][k] !== null));
  const heights = at.map((k) => columns.map((each) => each[y][k] * (y.endsWith("acc") ? 100 : 1)));
  const [xs, ys] = [at.map((k) => mean(columns.map((each) => each[x][k]))), heights.map((each) => mean(each))];
  const curve = { ...common, mode: "lines+markers", x: xs, y: ys, customdata: at.map((k) => rounds[k]), hovertemplate: "%{y:.4~g} (round %{customdata})" };
  if (columns.length < 2) return [curve];
  const [upper, lower] = [1, -1].map((sign) => heights.map((each) => mean(each) + sign * deviation(each)));
  const outline = { x: [...xs, ...xs.toReversed()], y: [...upper, ...lower.reverse()], mode: "lines", line: { width: 0 }, fill: "toself", fillcolor: line.style.line.color + shade };
  return [{ ...common, ...outline, hoverinfo: "skip", showlegend: false }, curve];
}

function moveByKey(event) {
  const [down, right] = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key] ?? [];
  const visible = [...event.currentTarget.data.entries()].filter(([, trace]) => trace.mode === "lines+markers");
  if (down === undefined || !visible.length) return;
  event.preventDefault();
  curves.line = (curves.line + down + visible.length) % visible.length;
  const [curveNumber, trace] = visible[curves.line];
  const pointNumber = (curves.point = Math.max(0, Math.min(curves.point + right, trace.x.length - 1)));
  Plotly.Fx.hover(event.currentTarget, [{ curveNumber, pointNumber }]);
  const line = lines().find((each) => each.name === trace.meta);
  first("#curves [role=status]").textContent = `${+trace.y[pointNumber].toPrecision(4)} in round ${trace.customdata[pointNumber]}: ${line.label}`;
}

// Heat map over two settings. A star marks a mean over runs that differ in more than the seed.
function drawHeat() {
  const [row, column, shows] = ["row", "column", "shows"].map(chosen);
  const isGain = shows === "gain";
  const runs = data.runs.filter((run) => run[shows] !== null && run.network === chosen("network") && passes(run));
  const values = (name) => [...new Set(runs.map((run) => setting(name, run)))].sort((a, b) => a - b || a.localeCompare(b));
  const cells = values(row).map((r) => values(column).map((c) => runs.filter((run) => setting(row, run) === r && setting(column, run) === c)));
  const star = (cell) => (new Set(cell.map((run) => run.group)).size > 1 ? "*" : "");
  const z = cells.map((line) => line.map((cell) => (cell.length ? 100 * mean(cell.map((run) => run[shows])) : null)));
  const text = cells.map((line) => line.map((cell) => (cell.length ? `${star(cell)}<br>${isGain ? "pairs" : "runs"}: ${cell.length}` : "")));
  const colorscale = [...(isGain ? [[0, colour("low")], [0.5, colour("card")]] : [[0, colour("chip")]]), [1, colour("high")]];
  const trace = { ...data.heat, texttemplate: isGain ? "%{z:+.2f}%{text}" : "%{z:.2f}%{text}", x: values(column).map(plain), y: values(row).map(plain), z, text, textfont: { color: colour("ink") }, colorscale, zmid: isGain ? 0 : undefined };
  const remark = cells.flat().some(star) ? data.mixed : runs.length ? "" : "No runs to show.";
  return draw("heat", [trace], column, row, remark, { height: 120 + 52 * Math.max(cells.length, 2) });
}

// The labels of each client: one dot per client and label, its area the number of samples.
async function drawPartition() {
  const { trace, remark, layout } = await unpack(data.partitions[chosen("partition")]);
  return draw("partition", [trace], "client", "label", remark, layout);
}

// Two runs, setting by setting.
function compare() {
  const runs = state.getAll("compare").map((name) => data.runs.find((run) => run.name === name)).filter(Boolean).slice(-2);
  all("#runs input").forEach((box) => { box.checked = runs.includes(data.runs[box.name]); });
  const differing = Object.keys(data.settings).filter((name) => new Set(runs.map((run) => setting(name, run))).size > 1);
  const accuracy = (run) => (run.value === null ? "–" : (100 * run.value).toFixed(2));
  const rows = [["setting", (run) => run.name], ["last five (%)", accuracy], ...differing.map((name) => [name, (run) => setting(name, run)])];
  const table = document.createElement("table");
  for (const [name, textOf] of rows) [name, ...runs.map(textOf)].reduce((row, text) => (row.insertCell().append(text), row), table.insertRow());
  first("#compare").replaceChildren(...(runs.length < 2 ? [] : [table, "All other settings are equal."]));
}

function update() {
  document.documentElement.dataset.theme = themeOf();
  try { history.replaceState(null, "", `?${state}${location.hash}`); } catch { /* some browsers forbid it for local files */ }
  all("[data-facet]").forEach((button) => { button.ariaPressed = state.has(button.dataset.facet, button.dataset.value); });
  all("tr[data-pan]").forEach((row) => { row.hidden = !passes(row.dataset); });
  first("#count").textContent = `${data.runs.filter(passes).length} of ${data.runs.length} runs`;
  compare();
  return Promise.all(Object.entries({ curves: drawCurves, heat: drawHeat, partition: drawPartition }).map(([section, redraw]) => first(`#${section} .chart`) && redraw()));
}

function sortRuns({ currentTarget: { parentElement: head } }) {
  const [key, down, body] = [(row) => row.cells[head.cellIndex].textContent, head.ariaSort === "ascending", first("#runs tbody")];
  all("#runs th[aria-sort]").forEach((each) => { each.ariaSort = each !== head ? "none" : down ? "descending" : "ascending"; });
  body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * key(a).localeCompare(key(b), undefined, { numeric: true })));
}

const toggle = (name, value) => { state[state.has(name, value) ? "delete" : "append"](name, value); update(); };
const onClick = (selector, act) => all(selector).forEach((element) => { element.onclick = act; });
onClick("[data-facet]", ({ currentTarget: { dataset } }) => { curves.shown = null; toggle(dataset.facet, dataset.value); });
onClick("#runs input", ({ currentTarget: box }) => toggle("compare", data.runs[box.name].name));
onClick("#runs th button", sortRuns);
onClick("#clear", (event) => { event.preventDefault(); curves.shown = null; FACETS.forEach((facet) => state.delete(facet)); update(); }); // in a summary, which would close
onClick("#all", () => show(lines().map((line) => line.name)));
onClick("#none", () => show([]));
onClick(".command button", ({ currentTarget: button }) => { getSelection().selectAllChildren(button.previousSibling); document.execCommand("copy"); button.textContent = "Copied"; });
all("select").forEach((select) => { select.onchange = () => { state.set(select.name, select.value); update(); }; });
all("option").forEach((option) => { option.selected ||= option.value === state.get(option.parentElement.name); });

const dark = matchMedia("(prefers-color-scheme: dark)");
const themeOf = () => state.get("theme") ?? (dark.matches ? "dark" : "light");
onClick("#theme", () => { state.set("theme", themeOf() === "dark" ? "light" : "dark"); update(); });
dark.onchange = update;
first("#filters details").open = matchMedia("(min-width: 641px)").matches;
update().then(() => {
  const [chart, nameOf] = [first("#curves .chart"), (event) => event.data[event.curveNumber].meta];
  chart?.addEventListener("keydown", moveByKey);
  chart?.on("plotly_legendclick", (event) => { show(shownLines().symmetricDifference(new Set([nameOf(event)]))); return false; });
  chart?.on("plotly_legenddoubleclick", (event) => { show([nameOf(event)]); return false; });
  chart?.on("plotly_selected", (event) => { if (event?.points.length) show(event.points.map((point) => point.data.meta)); });
});
if (data.watching) setInterval(() => navigator.userActivation.hasBeenActive || location.reload(), 15000); // not under a reader's hands
