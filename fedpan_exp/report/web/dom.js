"use strict";
// User-given names are inserted as text only; nothing here parses HTML.
const data = JSON.parse(document.getElementById("data").textContent);

function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "class") element.className = value;
    else if (name in element && !name.includes("-")) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function fill(id, ...children) {
  const element = document.getElementById(id);
  element.replaceChildren(...children.filter(Boolean));
  return element;
}

function title(id, text) {
  return make("h2", { id: `${id}-title` }, text);
}

function choice(label, options, selected, act) {
  const select = make("select", {}, ...options.map(([value, text]) => make("option", { value, selected: value === selected }, text)));
  select.addEventListener("change", () => act(select.value));
  return make("label", {}, label, select);
}

const looksNumeric = (text) => /^[+−-]?[\d.,]+%?( |$)/.test(text) || text === "–";

function table(columns, rows, aligned = true) {
  const numeric = columns.map((_, i) => aligned && i > 0 && rows.length > 0 && rows.every((row) => looksNumeric(row[i])));
  const kind = (i, text) => ({ class: numeric[i] ? "number" : text.length < 18 ? "short" : "" });
  const head = make("thead", {}, make("tr", {}, ...columns.map((name, i) => make("th", { ...kind(i, name), scope: "col" }, name))));
  const body = make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((text, i) => make("td", kind(i, text), text)))));
  return make("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "table" }, make("table", {}, head, body));
}

function command(text) {
  const button = make("button", { type: "button" }, "Copy");
  button.addEventListener("click", () => {
    const range = document.createRange();
    range.selectNodeContents(content);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    document.execCommand("copy");
    button.textContent = "Copied";
  });
  const content = make("span", {}, text);
  return make("div", { class: "command" }, content, button);
}

function badge(run) {
  const status = run.status === "done" && !run.complete ? "damaged" : run.status;
  return make("span", { class: `status ${status}`, title: run.trouble }, status);
}

const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
const percent = (value, digits = 2) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)}`);
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
