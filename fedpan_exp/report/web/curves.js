// Curves on a canvas: one line per setting (mean over its seeds) or per run. The legend shows and hides lines.
const METRICS = { "global/test_acc": "test accuracy (%)", "global/test_loss": "test loss", "train/loss": "training loss", "clients/divergence": "divergence of clients", "local/post_acc": "local accuracy (%)" };
const AXES = { round: "rounds", samples: "samples trained on", bytes: "bytes sent", seconds: "seconds in rounds" };
const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A6FD1", "#8C8C8C"];
const FIRST_SHOWN = 8;
const curves = { x: "round", y: "global/test_acc", by: "group", hidden: new Set(), touched: false, lines: [], highlighted: null };

function linesOf(runs) {
  const groups = new Map();
  const name = namesFor(runs);
  for (const run of runs) {
    if (!run.curve || !run.curve[curves.y]) continue;
    const key = curves.by === "group" && run.complete ? `group ${run.group}` : run.name;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(run);
  }
  return [...groups].flatMap(([key, members]) => {
    const same = members.every((run) => String(run.curve.round) === String(members[0].curve.round));
    return same ? [line(key, members, name)] : members.map((run) => line(run.name, [run], name));
  }).sort((a, b) => b.points.length - a.points.length || a.label.localeCompare(b.label, undefined, { numeric: true })); // the longest first
}

function line(key, runs, name) {
  const scale = curves.y.endsWith("acc") ? 100 : 1;
  const points = [];
  runs[0].curve.round.forEach((round, i) => {
    const x = runs.map((run) => run.curve[curves.x][i]);
    const y = runs.map((run) => run.curve[curves.y][i]);
    if (![...x, ...y].includes(null)) points.push([mean(x), scale * mean(y), round]);
  });
  const [run] = runs;
  const seeds = runs.length > 1 ? `mean of ${runs.length} seeds` : `seed ${run.seed}`;
  const unfinished = run.complete ? "" : ` [${run.status === "done" ? "damaged" : run.status}]`;
  return { key, label: [name(run), run.pan === "off" ? "PANs off" : run.pan, seeds].filter(Boolean).join(" · ") + unfinished, points, off: run.pan === "off" };
}

function showCurves() {
  const canvas = make("canvas", { tabIndex: 0, role: "img", "aria-label": "curves; arrow keys move along a line and from line to line" });
  const tip = make("div", { class: "tip", role: "status", hidden: true });
  const legend = make("div", { class: "legend", role: "group", "aria-label": "lines" });
  const set = (name) => (value) => { curves[name] = value; if (name === "by") curves.touched = false; update(); };
  const measured = Object.entries(METRICS).filter(([name]) => data.runs.some((run) => run.curve && run.curve[name]));
  if (!measured.length) return void fill("curves", title("curves", "Curves"), make("p", { class: "soft" }, "No run has curves."));
  const button = (text, act) => { const element = make("button", { type: "button" }, text); element.addEventListener("click", act); return element; };
  const all = (on) => () => { curves.touched = true; curves.hidden = new Set(on ? [] : curves.lines.map((each) => each.key)); update(); };
  const thinned = data.thinned ? `Long curves show ${data.points} of their rounds, without averaging; metrics.jsonl has all.` : "";
  fill(
    "curves", title("curves", "Curves"),
    make("div", { class: "card" },
      make("div", { class: "controls" }, choice("y", measured, curves.y, set("y")), choice("against", Object.entries(AXES), curves.x, set("x")),
        choice("one line per", [["group", "setting (mean over seeds)"], ["run", "run"]], curves.by, set("by")), button("All", all(true)), button("None", all(false))),
      make("div", { class: "chart" }, canvas, tip), legend, make("p", { class: "small soft" }, thinned))
  );
  const draw = () => drawCurves(canvas, tip);
  const update = () => {
    curves.lines = linesOf(filtered());
    curves.lines.forEach((each, i) => { each.colour = PALETTE[i % PALETTE.length]; });
    if (!curves.touched) curves.hidden = new Set(curves.lines.slice(FIRST_SHOWN).map((each) => each.key));
    curves.highlighted = null;
    fillLegend(legend, draw);
    draw();
  };
  listeners.push(update);
  canvas.addEventListener("pointermove", (event) => highlight(canvas, nearest(canvas, event.offsetX, event.offsetY), tip));
  canvas.addEventListener("pointerleave", () => highlight(canvas, null, tip));
  canvas.addEventListener("keydown", (event) => moveByKey(canvas, event, tip));
  new ResizeObserver(draw).observe(canvas);
  document.addEventListener("themechange", draw);
}

function fillLegend(legend, draw) {
  legend.replaceChildren(...curves.lines.map((each) => {
    const button = make("button", { type: "button", "aria-pressed": String(!curves.hidden.has(each.key)) }, swatch(each), make("span", {}, each.label));
    button.addEventListener("click", () => {
      curves.touched = true;
      if (!curves.hidden.delete(each.key)) curves.hidden.add(each.key);
      button.setAttribute("aria-pressed", String(!curves.hidden.has(each.key)));
      draw();
    });
    return button;
  }));
}

function swatch(each) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  for (const [name, value] of [["width", 26], ["height", 10], ["aria-hidden", "true"]]) svg.setAttribute(name, value);
  for (const [name, value] of [["d", "M1 5H25"], ["stroke", each.colour], ["stroke-width", 2.5], ["stroke-dasharray", each.off ? "5 3" : ""]]) path.setAttribute(name, value);
  svg.append(path);
  return svg;
}
