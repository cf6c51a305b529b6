// The labels of each client: one dot per client and label, its area the number of samples.
function showPartition() {
  const having = data.runs.filter((run) => run.partition !== null);
  if (!having.length) return void fill("partition", title("partition", "Partition"), make("p", { class: "soft" }, "No run has a partition."));
  const container = make("div", { class: "scroll" });
  const caption = make("p", { class: "small soft" });
  const select = make("select", { "aria-label": "partition of" });
  const update = () => {
    const seen = new Map();
    const name = namesFor(filtered());
    for (const run of filtered()) if (run.partition !== null && !seen.has(run.partition)) seen.set(run.partition, run);
    select.replaceChildren(...[...seen].map(([i, run]) => make("option", { value: i }, `${name(run) || run.dataset} · seed ${run.seed}`)));
    draw();
  };
  const draw = () => {
    const run = having.find((each) => String(each.partition) === select.value);
    container.replaceChildren(...(run ? [partitionPicture(data.partitions[run.partition])] : []));
    caption.textContent = run ? partitionCaption(data.partitions[run.partition], run.clients) : "No run to show.";
  };
  select.addEventListener("change", draw);
  fill("partition", title("partition", "Partition"), make("div", { class: "card" }, make("div", { class: "controls" }, make("label", {}, "of", select)), container, caption));
  listeners.push(update);
}

function partitionCaption(rows, clients) {
  const sizes = rows.map((row) => row.reduce((sum, count) => sum + count, 0));
  const first = clients > rows.length ? `the first ${rows.length} of ${clients} clients` : `${clients} clients`;
  return `${first}, ${Math.min(...sizes)} to ${Math.max(...sizes)} samples; largest dot: ${Math.max(...rows.flat())} samples.`;
}

function partitionPicture(rows) {
  const space = "http://www.w3.org/2000/svg";
  const [step, left, top] = [Math.max(9, Math.min(50, 1050 / rows.length)), 34, 20];
  const labels = rows[0].length;
  const tall = labels > 20 ? 7 : 18;
  const largest = Math.max(...rows.flat(), 1);
  const node = (tag, attributes, text) => {
    const element = document.createElementNS(space, tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const [width, height] = [left + rows.length * step + 10, top + labels * tall + 40];
  const picture = node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "samples by client and label" });
  const text = (x, y, content, anchor) => picture.append(node("text", { x, y, "text-anchor": anchor, "font-size": 11, fill: "var(--soft)" }, content));
  for (let label = 0; label < labels; label += labels > 20 ? 10 : 1) text(left - 8, top + label * tall + tall / 2 + 4, label, "end");
  rows.forEach((row, client) => {
    const x = left + client * step + step / 2;
    if (client % Math.ceil(rows.length / 20) === 0) text(x, top + labels * tall + 16, client, "middle");
    row.forEach((count, label) => {
      if (!count) return;
      const dot = node("circle", { cx: x, cy: top + label * tall + tall / 2, r: Math.max(0.8, (0.5 * Math.min(step, tall * 1.25)) * Math.sqrt(count / largest)), fill: PALETTE[label % PALETTE.length] });
      dot.append(node("title", {}, `client ${client}, label ${label}: ${count} samples`));
      picture.append(dot);
    });
  });
  text(left + (rows.length * step) / 2, height - 6, "client", "middle");
  text(2, 12, "label", "start");
  return picture;
}
