// Elements out of data. Whatever comes from a record goes in as text; nothing here ever parses markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export function link(route, ...children) {
  return h("a", { href: route }, ...children);
}

export function finite(value) {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

// As core/number_text.py has it: two significant digits of a standard error, four of a number without; two to six decimals.
export function decimals(value, error) {
  const known = finite(error) !== null && error > 0;
  const size = known ? error : Math.abs(value);
  return size ? Math.min(Math.max((known ? 1 : 3) - Math.floor(Math.log10(size)), 2), 6) : 2;
}

export function number(value, digits, error) {
  const known = finite(value);
  if (known === null) return value === null || value === undefined ? "–" : String(value);
  const places = digits ?? decimals(known, error);
  return known.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places }).replace("-", "−");
}

export function count(value) {
  return finite(value) === null ? "–" : Math.round(value).toLocaleString("en");
}

export function short(value) {
  const known = finite(value);
  if (known === null) return "–";
  return known.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
}

export function money(value) {
  return finite(value) === null ? "–" : `$${number(value, value < 0.1 ? 3 : 2)}`;
}

export function percent(value) {
  return finite(value) === null ? "–" : `${Math.round(100 * value)} %`;
}

export function plusMinus(mean, error) {
  return finite(error) === null ? number(mean) : [number(mean, undefined, error), h("span", { class: "soft" }, ` ± ${number(error, undefined, error)}`)];
}

export function moment(text) {
  const time = new Date(text);
  return Number.isNaN(time.valueOf()) ? String(text ?? "–") : time.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

export function duration(seconds) {
  const known = finite(seconds);
  if (known === null) return "–";
  if (known < 60) return `${number(known, known < 10 ? 1 : 0)} s`;
  return known < 5400 ? `${Math.round(known / 60)} min` : `${number(known / 3600, 1)} h`;
}

export function fact(name, ...value) {
  return h("div", { class: "fact" }, h("dt", null, name), h("dd", null, ...value));
}

export function facts(...all) {
  return h("dl", { class: "facts" }, all.filter(Boolean));
}

export function section(title, note, ...children) {
  return h("section", null, h("h2", null, title), note ? h("p", { class: "note" }, note) : null, ...children);
}

export function nothing(what, ...todo) {
  return h("div", { class: "nothing" }, h("p", null, what), h("p", { class: "soft" }, ...todo));
}

// A table that can be sorted: columns are {name, title, value(row), cell(row), text?, down?}.
export function table(columns, rows, { caption, sort, onsort, mark } = {}) {
  let by = sort;
  const body = h("tbody");
  const heads = columns.map((column) => {
    const button = h("button", { type: "button", title: column.title, click: () => turn(column) }, column.name);
    return h("th", { scope: "col", class: column.text ? "text" : null }, button);
  });
  function turn(column) {
    const down = by?.name === column.name ? !by.down : !column.text && column.down !== false;
    by = { name: column.name, down };
    onsort?.(by);
    draw();
  }
  function draw() {
    const column = columns.find((one) => one.name === by?.name);
    const shown = [...rows];
    if (column) shown.sort((a, b) => compared(column.value(a), column.value(b)) * (by.down ? -1 : 1) || 0);
    if (column) shown.sort((a, b) => missing(column.value(a)) - missing(column.value(b)));
    heads.forEach((head, place) => {
      const own = columns[place] === column;
      if (own) head.setAttribute("aria-sort", by.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    body.replaceChildren(...shown.map((row) => h("tr", { class: mark?.(row) }, columns.map((one) =>
      h("td", { class: one.text ? "text" : null }, one.cell ? one.cell(row) : one.value(row) ?? "–")))));
  }
  draw();
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", null, h("caption", { class: "unseen" }, caption), h("thead", null, h("tr", null, heads)), body));
}

function missing(value) {
  return value === null || value === undefined || value === "" ? 1 : 0;
}

function compared(a, b) {
  if (typeof a === "string" || typeof b === "string") return String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true });
  return (finite(a) ?? -Infinity) - (finite(b) ?? -Infinity) || 0;
}
