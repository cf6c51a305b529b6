// A heat map over any two settings. A star marks a mean over runs that differ in more than the seed.
const heat = { rows: null, columns: null, value: "last5" };

function cellsOf(runs, valueOf) {
  const cells = new Map();
  for (const run of runs) {
    const value = valueOf(run);
    if (value === null) continue;
    const key = JSON.stringify([run.settings[heat.rows], run.settings[heat.columns]]);
    if (!cells.has(key)) cells.set(key, { values: [], groups: new Set() });
    cells.get(key).values.push(value);
    cells.get(key).groups.add(run.group);
  }
  return cells;
}

function heatCells() {
  const complete = data.runs.filter((run) => run.complete && run.last5 !== null);
  if (heat.value === "last5") return cellsOf(complete.filter(passes), (run) => run.last5);
  const off = new Map(complete.filter((run) => run.pan === "off" && passesExceptPan(run)).map((run) => [`${run.base} ${run.seed}`, run]));
  return cellsOf(complete.filter((run) => run.pan !== "off" && passes(run)), (run) => {
    const plain = off.get(`${run.base} ${run.seed}`);
    return plain ? run.last5 - plain.last5 : null;
  });
}

function showHeat() {
  const names = data.varying.map((name, i) => [String(i), name]);
  if (names.length < 2) return void fill("heat", title("heat", "Heat map"), make("p", { class: "soft" }, "A heat map needs two settings that vary."));
  const preferred = ["fl_scene.alpha", "pan.A", "algorithm.name", "dataset.name"].map((name) => data.varying.indexOf(name)).filter((i) => i >= 0);
  const order = [...new Set([...preferred, ...names.keys()])];
  [heat.rows, heat.columns] = order;
  const container = make("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "heat map" });
  const foot = make("p", { class: "small soft" });
  const set = (name) => (value) => { heat[name] = name === "value" ? value : Number(value); update(); };
  const update = () => drawHeat(container, foot);
  fill("heat", title("heat", "Heat map"), make("div", { class: "card" },
    make("div", { class: "controls" }, choice("rows", names, String(heat.rows), set("rows")), choice("columns", names, String(heat.columns), set("columns")),
      choice("shows", [["last5", "accuracy, mean of the last five rounds (%)"], ["gain", "gain by PANs, paired (points)"]], heat.value, set("value"))),
    container, foot));
  listeners.push(update);
  document.addEventListener("themechange", update);
}

function drawHeat(container, foot) {
  const cells = heatCells();
  const keys = [...cells.keys()].map((key) => JSON.parse(key));
  const sorted = (i) => [...new Set(keys.map((key) => key[i]))].sort((a, b) => (isNaN(a) || isNaN(b) ? String(a).localeCompare(b) : a - b));
  const [rows, columns] = [sorted(0), sorted(1)];
  const means = [...cells.values()].map((cell) => mean(cell.values));
  const [low, high] = [Math.min(...means), Math.max(...means)];
  const largest = Math.max(Math.abs(low), Math.abs(high)) || 1;
  let mixed = 0;
  const cellOf = (row, column) => {
    const cell = cells.get(JSON.stringify([row, column]));
    if (!cell) return make("td", { class: "soft" }, "–");
    const value = mean(cell.values);
    const star = cell.groups.size > 1 ? "*" : "";
    mixed += cell.groups.size > 1;
    const fraction = heat.value === "gain" ? Math.abs(value) / largest : high > low ? (value - low) / (high - low) : 0.5;
    const hue = heat.value === "gain" && value < 0 ? "#D55E00" : "#0072B2";
    const td = make("td", {}, `${heat.value === "gain" && value > 0 ? "+" : ""}${percent(value)}${star}`, make("small", {}, count(cell.values.length, heat.value === "gain" ? "pair" : "run")));
    td.style.background = `color-mix(in srgb, ${hue} ${Math.round(8 + 62 * fraction)}%, var(--card))`;
    return td;
  };
  const corner = `${data.varying[heat.rows]} \\ ${data.varying[heat.columns]}`;
  const head = make("tr", {}, make("th", {}, corner), ...columns.map((column) => make("th", { scope: "col" }, column)));
  const body = rows.map((row) => make("tr", {}, make("th", { scope: "row" }, row), ...columns.map((column) => cellOf(row, column))));
  container.replaceChildren(rows.length ? make("table", { class: "map" }, make("thead", {}, head), make("tbody", {}, ...body)) : make("p", { class: "soft" }, "No runs to show."));
  foot.textContent = mixed ? "* mean over runs that differ in more than the seed; filter, or select other settings, to separate them." : "";
}
