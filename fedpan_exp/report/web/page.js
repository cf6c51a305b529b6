"use strict";
// Filters, charts and the comparison of two runs. The URL has the state of all controls. Names that users gave are
// inserted as text: by textContent, or escaped in Plotly's labels, which interpret some tags.
const data = JSON.parse(document.getElementById("data").textContent);
const FACETS = ["study", "algorithm", "dataset", "pan", "status"];
const FIRST_SHOWN = 8; // lines
const POINTS = 16000; // of all lines together, unless all rounds are asked for
const CONFIG = { responsive: true, displaylogo: false, modeBarButtonsToAdd: ["select2d"], toImageButtonOptions: { format: "svg" } };

const all = (selector) => [...document.querySelectorAll(selector)];
const first = (selector) => document.querySelector(selector);
const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const deviation = (values, m = mean(values)) => Math.sqrt(values.reduce((sum, value) => sum + (value - m) ** 2, 0) / (values.length - 1));
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const bytes = (packed) => Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
const unpack = (packed) => new Response(new Blob([bytes(packed)]).stream().pipeThrough(new DecompressionStream("gzip"))).json();

const state = new URLSearchParams(location.search);
const chosen = (name) => first(`select[name=${name}]`).value;
const passes = (item, except) => FACETS.every((facet) =>
  facet === except || !(facet in item) || !state.has(facet) || state.has(facet, item[facet]));
const setting = (name, run) => data.settings[name][0][data.settings[name][1][run]];

function draw(section, traces, x, y, more, remark) {
  const axis = (title, rest) => ({ title: { text: plain(title) }, gridcolor: colour("line"), zeroline: false, automargin: true, ...rest });
  const clear = "rgba(0,0,0,0)";
  const layout = {
    font: { color: colour("ink"), family: "system-ui, sans-serif" }, paper_bgcolor: clear, plot_bgcolor: clear, margin: { l: 50, r: 10, t: 30, b: 45 },
    hoverlabel: { bgcolor: colour("card"), font: { color: colour("ink") } }, modebar: { bgcolor: clear, color: colour("soft"), activecolor: colour("accent") },
    ...more, xaxis: axis(x, more.xaxis), yaxis: axis(y, more.yaxis),
  };
  first(`#${section} [role=status]`).textContent = remark;
  return Plotly.react(first(`#${section} .chart`), traces, layout, CONFIG);
}

// Curves: a line per setting (mean over its seeds, with a band of one standard deviation) or per run.
const curves = { shown: null, cache: new Map(), latest: 0, line: 0, point: -1 };
const lines = () => data.lines[chosen("by")].filter((line) => passes(data.runs[line.runs[0]]));
const shownLines = () => curves.shown ?? new Set(lines().slice(0, FIRST_SHOWN).map((line) => line.name));
const show = (names) => { curves.shown = names; drawCurves(); };

async function curveOf(run) {
  if (!curves.cache.has(run)) {
    const columns = await unpack(data.runs[run].curve);
    for (const axis in data.axes) { let total = 0; columns[axis] = columns[axis].map((step) => (total += step)); }
    curves.cache.set(run, columns);
  }
  return curves.cache.get(run);
}

async function drawCurves() {
  const [shown, x, y, latest] = [shownLines(), chosen("x"), chosen("y"), ++curves.latest];
  const loaded = await Promise.all(lines().map((line) => Promise.all(shown.has(line.name) ? line.runs.map(curveOf) : [])));
  if (latest !== curves.latest) return; // a later change overtook this one
  const points = loaded.reduce((sum, [curve]) => sum + (curve ? curve.round.length : 0), 0);
  const every = chosen("rounds") === "all" ? 1 : Math.ceil(points / POINTS);
  const traces = lines().flatMap((line, i) => tracesOf(line, loaded[i], x, y, every));
  const legend = { orientation: "h", y: -0.18, yanchor: "top", maxheight: 170 };
  const remark = every > 1 ? `One of ${every} rounds is shown, without averaging; choose all rounds to see whole curves.` : "";
  await draw("curves", traces, data.axes[x], data.metrics[y], { hovermode: "x unified", legend, showlegend: true, uirevision: x + y, height: 600 }, remark);
}

function tracesOf(line, columns, x, y, every) {
  const common = { ...line.style, name: plain(line.label), meta: line.name, legendgroup: line.name };
  if (!columns.length || !columns[0][y]) return [{ ...common, mode: "lines", x: [null], y: [null], visible: "legendonly" }];
  const isShown = (_, k, rounds) => (k % every === 0 || k === rounds.length - 1) && columns.every((each) => each[y][k] !== null);
  const at = [...columns[0].round.keys()].filter(isShown);
  const heights = at.map((k) => columns.map((each) => each[y][k] * (y.endsWith("acc") ? 100 : 1)));
  const [xs, ys, spread] = [at.map((k) => mean(columns.map((each) => each[x][k]))), heights.map((each) => mean(each)), heights.map((each) => deviation(each))];
  const customdata = at.map((k) => columns[0].round[k]);
  const curve = { ...common, mode: "lines+markers", x: xs, y: ys, customdata, hovertemplate: x === "round" ? "%{y:.5~g}" : "%{y:.5~g} (round %{customdata})" };
  const outline = [...ys.map((value, k) => value + spread[k]), ...ys.map((value, k) => value - spread[k]).reverse()];
  const band = { ...common, x: [...xs, ...xs.toReversed()], y: outline, mode: "lines", fill: "toself", fillcolor: `${line.style.line.color}26`, line: { width: 0 }, hoverinfo: "skip", showlegend: false };
  return columns.length > 1 ? [band, curve] : [curve];
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
  first("#curves [role=status]").textContent = `${+trace.y[pointNumber].toPrecision(5)} in round ${trace.customdata[pointNumber]}: ${lines().find((line) => line.name === trace.meta).label}`;
}

// Heat map over two settings. A star marks a mean over runs that differ in more than the seed.
function drawHeat() {
  const [row, column, gain] = [chosen("row"), chosen("column"), chosen("shows") === "gain"];
  const measured = data.runs.filter((run) => run.value !== null && run.network === chosen("network"));
  const off = new Map(measured.filter((run) => run.pan === "off" && passes(run, "pan")).map((run) => [`${run.base} ${run.seed}`, run.value]));
  const valueOf = (run) => (!gain ? run.value : run.pan === "off" ? NaN : run.value - off.get(`${run.base} ${run.seed}`));
  const runs = measured.filter((run) => passes(run) && !isNaN(valueOf(run)));
  const values = (name) => [...new Set(runs.map((run) => setting(name, run.index)))].sort((a, b) => a - b || a.localeCompare(b, undefined, { numeric: true }));
  const [rows, columns] = [values(row), values(column)];
  const cells = rows.map((r) => columns.map((c) => runs.filter((run) => setting(row, run.index) === r && setting(column, run.index) === c)));
  const isMixed = (cell) => new Set(cell.map((run) => run.group)).size > 1;
  const z = cells.map((line) => line.map((cell) => (cell.length ? 100 * mean(cell.map(valueOf)) : null)));
  const textOf = (cell, value) => `${gain && value > 0 ? "+" : ""}${value.toFixed(2)}${isMixed(cell) ? "*" : ""}<br>${count(cell.length, gain ? "pair" : "run")}`;
  const text = cells.map((line, i) => line.map((cell, j) => (cell.length ? textOf(cell, z[i][j]) : "")));
  const colorscale = gain ? [[0, "#D55E00"], [0.5, colour("card")], [1, "#0072B2"]] : [[0, colour("chip")], [1, "#0072B2"]];
  const trace = { type: "heatmap", x: columns.map(plain), y: rows.map(plain), z, text, texttemplate: "%{text}", hovertemplate: "%{y}, %{x}: %{text}<extra></extra>", colorscale, xgap: 1, ygap: 1, zmid: gain ? 0 : undefined, colorbar: { title: { text: gain ? "points" : "%" }, thickness: 12 } };
  const remark = cells.flat().some(isMixed) ? "* mean over runs that differ in more than the seed; filter, or choose other settings, to separate them." : rows.length ? "" : "No runs to show.";
  return draw("heat", [trace], column, row, { xaxis: { type: "category", showgrid: false }, yaxis: { type: "category", showgrid: false, autorange: "reversed" }, height: 120 + 52 * Math.max(rows.length, 2) }, remark);
}

// The labels of each client: one dot per client and label, its area the number of samples.
async function drawPartition() {
  const select = first("#partition select");
  const runs = new Map(data.runs.filter((run) => run.partition >= 0 && passes(run)).reverse().map((run) => [run.partition, run]));
  select.replaceChildren(...[...runs].reverse().map(([value, run]) => new Option(`${run.label || run.dataset} · seed ${run.seed}`, value)));
  if (runs.has(+state.get("partition"))) select.value = state.get("partition") ?? select.value;
  const { rows, clients } = runs.size ? await unpack(data.partitions[select.value]) : { rows: [], clients: 0 };
  const dots = rows.flatMap((row, client) => row.map((samples, label) => ({ client, label, samples }))).filter((dot) => dot.samples);
  const [size, sizes] = [dots.map((dot) => dot.samples), rows.map((row) => row.reduce((sum, samples) => sum + samples, 0))];
  const marker = { size, sizemode: "area", sizeref: Math.max(...size) / 128, sizemin: 1, color: dots.map((dot) => data.colours[dot.label % data.colours.length]) };
  const trace = { mode: "markers", x: dots.map((dot) => dot.client), y: dots.map((dot) => dot.label), marker, customdata: size, hovertemplate: "client %{x}, label %{y}: %{customdata} samples<extra></extra>" };
  const which = clients > rows.length ? `the first ${rows.length} of ${clients} clients` : count(clients, "client");
  const remark = rows.length ? `${which}, ${Math.min(...sizes)} to ${Math.max(...sizes)} samples; largest dot: ${Math.max(...size)} samples.` : "No run to show.";
  return draw("partition", [trace], "client", "label", { yaxis: { autorange: "reversed" }, height: 380 }, remark);
}

// Two runs, setting by setting.
function compare() {
  const runs = state.getAll("compare").map((name) => data.runs.find((run) => run.name === name)).filter(Boolean).slice(-2);
  all("#runs input").forEach((box) => { box.checked = runs.includes(data.runs[box.name]); });
  const [names, indices] = [Object.keys(data.settings), runs.map((run) => run.index)];
  const differing = names.filter((name) => new Set(indices.map((run) => setting(name, run))).size > 1);
  const accuracy = (run) => (run.value === null ? "–" : (100 * run.value).toFixed(2));
  const table = document.createElement("table");
  for (const texts of [["setting", ...runs.map((run) => run.name)], ["last five (%)", ...runs.map(accuracy)], ...differing.map((name) => [name, ...indices.map((run) => setting(name, run))])])
    texts.reduce((row, text) => { row.insertCell().textContent = text; return row; }, table.insertRow());
  first("#compare").replaceChildren(...(runs.length < 2 ? [] : [table, `${count(names.length - differing.length, "setting")} in common`]));
}

function update() {
  try { history.replaceState(null, "", `?${state}${location.hash}`); } catch { /* some browsers forbid it for local files */ }
  all("[data-facet]").forEach((button) => { button.ariaPressed = state.has(button.dataset.facet, button.dataset.value); });
  all("#paired tr[data-pan]").forEach((row) => { row.hidden = !passes(row.dataset); });
  all("#runs input").forEach((box) => { box.closest("tr").hidden = !passes(data.runs[box.name]); });
  first("#count").textContent = `${count(data.runs.filter((run) => passes(run)).length, "run")} of ${data.runs.length}`;
  compare();
  return Promise.all([["curves", drawCurves], ["heat", drawHeat], ["partition", drawPartition]].map(([section, redraw]) => first(`#${section} .chart`) && redraw()));
}

function toggle(name, value) {
  if (state.has(name, value)) state.delete(name, value); else state.append(name, value);
  curves.shown = null;
  update();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  first("#theme").textContent = theme === "dark" ? "Light" : "Dark";
  return update();
}

all("[data-facet]").forEach((button) => { button.onclick = () => toggle(button.dataset.facet, button.dataset.value); });
all("#runs input").forEach((box) => { box.onchange = () => toggle("compare", data.runs[box.name].name); });
all("select").forEach((select) => { select.value = state.get(select.name) ?? select.value; select.onchange = () => { state.set(select.name, select.value); update(); }; });
all(".command button").forEach((button) => { button.onclick = () => { getSelection().selectAllChildren(button.previousSibling); document.execCommand("copy"); button.textContent = "Copied"; }; });
first("#clear").onclick = (event) => { event.preventDefault(); FACETS.forEach((facet) => state.delete(facet)); update(); }; // it is in a summary
all("#runs th button").forEach((button) => { button.onclick = () => {
  const [head, body] = [button.parentElement, first("#runs tbody")];
  const [key, down] = [(row) => row.cells[head.cellIndex].textContent, head.ariaSort === "ascending"];
  all("#runs th[aria-sort]").forEach((each) => { each.ariaSort = each !== head ? "none" : down ? "descending" : "ascending"; });
  body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * key(a).localeCompare(key(b), undefined, { numeric: true })));
}; });

let theme = null;
try { theme = localStorage.getItem("theme"); } catch { /* storage may be forbidden for a local file */ }
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.onchange = () => theme || setTheme(dark.matches ? "dark" : "light");
first("#theme").onclick = () => { setTheme((theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark")); try { localStorage.setItem("theme", theme); } catch { /* as above */ } };
first("#filters details").open = matchMedia("(min-width: 641px)").matches;
setTheme(theme || (dark.matches ? "dark" : "light")).then(() => {
  const chart = first("#curves .chart");
  if (!chart) return;
  const nameOf = (event) => event.data[event.curveNumber].meta;
  chart.on("plotly_legendclick", (event) => { const names = shownLines(); if (!names.delete(nameOf(event))) names.add(nameOf(event)); show(names); return false; });
  chart.on("plotly_legenddoubleclick", (event) => { show(new Set([nameOf(event)])); return false; });
  chart.on("plotly_selected", (event) => { if (event?.points.length) show(new Set(event.points.map((point) => point.data.meta))); });
  chart.onkeydown = moveByKey;
  first("#all").onclick = () => show(new Set(lines().map((line) => line.name)));
  first("#none").onclick = () => show(new Set());
});
if (data.watching) {
  let touched = false;
  for (const event of ["pointerdown", "keydown"]) addEventListener(event, () => { touched = true; });
  setInterval(() => touched || location.reload(), 15000); // do not reload under a reader's hands
}
