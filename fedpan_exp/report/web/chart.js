// The canvas of the curves: frame, ticks, lines, the highlighted point.
const MARGIN = { left: 58, right: 14, top: 12, bottom: 40 };
const visible = () => curves.lines.filter((each) => !curves.hidden.has(each.key) && each.points.length);

function frame(canvas) {
  const points = visible().flatMap((each) => each.points);
  const [xs, ys] = [0, 1].map((i) => points.map((point) => point[i]));
  const range = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  const widen = ([low, high]) => (low > high ? [0, 1] : low === high ? [low - 1, high + 1] : [low, high]);
  const [x0, x1] = widen(range(xs));
  const [low, high] = widen(range(ys));
  const [y0, y1] = [low - 0.04 * (high - low), high + 0.04 * (high - low)];
  const width = canvas.clientWidth - MARGIN.left - MARGIN.right;
  const height = canvas.clientHeight - MARGIN.top - MARGIN.bottom;
  return {
    x0, x1, y0, y1, width, height,
    x: (value) => MARGIN.left + (width * (value - x0)) / (x1 - x0),
    y: (value) => MARGIN.top + height - (height * (value - y0)) / (y1 - y0),
  };
}

function ticks(low, high, count) {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= raw);
  const values = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) values.push(i * step);
  return values;
}

function short(value) {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (Math.abs(value) >= size * 10 || (size > 1e3 && Math.abs(value) >= size)) return `${+(value / size).toPrecision(3)}${letter}`;
  return String(+value.toPrecision(4));
}

function drawCurves(canvas) {
  if (!canvas.clientWidth) return;
  const ratio = devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * ratio;
  canvas.height = canvas.clientHeight * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const box = frame(canvas);
  const [ink, soft, grid] = ["--ink", "--soft", "--line"].map(colour);
  pen.font = "12px system-ui, sans-serif";
  pen.strokeStyle = grid;
  pen.fillStyle = soft;
  pen.lineWidth = 1;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (const value of ticks(box.y0, box.y1, 6)) {
    stroke(pen, [[MARGIN.left, box.y(value)], [MARGIN.left + box.width, box.y(value)]]);
    pen.fillText(short(value), MARGIN.left - 7, box.y(value));
  }
  pen.textAlign = "center";
  pen.textBaseline = "top";
  for (const value of ticks(box.x0, box.x1, Math.max(3, box.width / 110))) pen.fillText(short(value), box.x(value), MARGIN.top + box.height + 6);
  pen.fillStyle = ink;
  pen.fillText(AXES[curves.x], MARGIN.left + box.width / 2, MARGIN.top + box.height + 22);
  if (!visible().length) pen.fillText("no line is selected", MARGIN.left + box.width / 2, MARGIN.top + box.height / 2);
  for (const each of visible()) {
    const isHighlighted = curves.highlighted && curves.highlighted.line === each;
    pen.strokeStyle = each.colour;
    pen.globalAlpha = curves.highlighted && !isHighlighted ? 0.3 : 1;
    pen.lineWidth = isHighlighted ? 3 : 1.8;
    pen.setLineDash(each.off ? [6, 4] : []);
    const path = each.points.map(([x, y]) => [box.x(x), box.y(y)]);
    stroke(pen, path);
    if (path.length < 3) path.forEach(([x, y]) => dot(pen, x, y, 3, each.colour));
  }
  pen.setLineDash([]);
  pen.globalAlpha = 1;
  if (curves.highlighted) {
    const [x, y] = curves.highlighted.line.points[curves.highlighted.index];
    dot(pen, box.x(x), box.y(y), 5, curves.highlighted.line.colour);
  }
}

function stroke(pen, path) {
  pen.beginPath();
  path.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

function dot(pen, x, y, radius, fillColour) {
  pen.fillStyle = fillColour;
  pen.beginPath();
  pen.arc(x, y, radius, 0, 7);
  pen.fill();
}

function nearest(canvas, px, py) {
  const box = frame(canvas);
  let best = null;
  let least = 60 ** 2;
  for (const each of visible()) {
    each.points.forEach(([x, y], index) => {
      const distance = (box.x(x) - px) ** 2 + (box.y(y) - py) ** 2;
      if (distance < least) [least, best] = [distance, { line: each, index }];
    });
  }
  return best;
}

function highlight(canvas, point, tip) {
  curves.highlighted = point;
  drawCurves(canvas);
  tip.hidden = !point;
  if (!point) return;
  const [x, y, round] = point.line.points[point.index];
  const box = frame(canvas);
  const against = curves.x === "round" ? "" : `, ${short(x)} ${AXES[curves.x]}`;
  tip.replaceChildren(make("b", {}, `${+y.toPrecision(5)}`), ` ${METRICS[curves.y]}, round ${round}${against}`, make("div", { class: "soft" }, point.line.label));
  tip.style.left = `${Math.max(0, Math.min(box.x(x) + 12, canvas.clientWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${Math.max(0, box.y(y) - tip.offsetHeight - 12)}px`;
}

function moveByKey(canvas, event, tip) {
  const lines = visible();
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!steps || !lines.length) return;
  event.preventDefault();
  const current = curves.highlighted || { line: lines[0], index: -1 };
  const wrap = (value, size) => (value + size) % size;
  const next = lines[wrap(lines.indexOf(current.line) + steps[0], lines.length)];
  highlight(canvas, { line: next, index: Math.max(0, Math.min(current.index + steps[1], next.points.length - 1)) }, tip);
}
