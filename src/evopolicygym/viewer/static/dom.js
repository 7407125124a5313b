// Elements out of data. Whatever comes from a record goes in as text; nothing here ever parses markup.

import { recall, remember } from "./memory.js";

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children.flat(4).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

// Has an element hold these children, and nothing else.
export function put(element, ...children) {
  element.replaceChildren(...nodes(children));
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

const ROUNDING = 1e-7; // of a value: an error of less is none

// As core/text.py has it: two significant digits of a standard error, four of a number without; two to six decimals,
// none of large ones.
export function decimals(value, error) {
  const known = finite(error) !== null && error > ROUNDING * Math.abs(value);
  const size = known ? error : Math.abs(value);
  if (size >= (known ? 100 : 10_000)) return 0;
  return size ? Math.min(Math.max((known ? 1 : 3) - Math.floor(Math.log10(size)), 2), 6) : 2;
}

const LARGE = 1e9, SMALL = 1e-6; // beyond these a number is written with a power of ten

export function number(value, digits, error) {
  const known = finite(value);
  if (known === null) return value === null || value === undefined ? "–" : String(value);
  if (Math.abs(known) >= LARGE || (known !== 0 && Math.abs(known) < SMALL)) return known.toExponential(3).replaceAll("-", "−").replace("+", "");
  const places = digits ?? decimals(known, error);
  return known.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places }).replace("-", "−");
}

export function ending(episode) {
  return episode.terminated ? "terminated" : episode.truncated ? "truncated" : "–";
}

export function count(value) {
  return finite(value) === null ? "–" : Math.round(value).toLocaleString("en");
}

export function short(value) {
  const known = finite(value);
  if (known === null) return "–";
  return known.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
}

export function money(value, isLowerBound = false) {
  const known = finite(value);
  if (known === null) return "–";
  const size = Math.abs(known);
  return `${isLowerBound ? "≥ " : ""}$${number(known, size === 0 || size >= 0.1 ? 2 : Math.min(6, 1 - Math.floor(Math.log10(size))))}`;
}

export function percent(value) {
  return finite(value) === null ? "–" : `${Math.round(100 * value)} %`;
}

// A word of a command that people paste, as core/text.py has it: quoted where it must be, and no option.
export function shellWord(text) {
  const word = String(text).startsWith("-") ? `./${text}` : String(text);
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

export function plural(value, noun, nouns = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : nouns}`;
}

export function withError(mean, error) {
  return finite(error) === null ? number(mean) : `${number(mean, undefined, error)} ± ${number(error, undefined, error)}`;
}

export function plusMinus(mean, error) {
  return finite(error) === null ? number(mean) : [number(mean, undefined, error), h("span", { class: "soft" }, ` ± ${number(error, undefined, error)}`)];
}

// The standard error that a 95 % interval tells of; null where there is none.
export function errorOf({ interval }) {
  return interval ? (interval[1] / 2 - interval[0] / 2) / 1.96 : null;
}

// A value with the digits that its interval leaves; those of a share where there is none.
export function measured(score) {
  return asMeasured(score?.value, score);
}

// The ends of a share's interval, in words.
export function endsOf(score) {
  return `${asMeasured(score.interval[0], score)} to ${asMeasured(score.interval[1], score)}`;
}

const NO_WIDTH = 1e-6; // an interval of less has none: all that was drawn agreed
const SHARE_DIGITS = 3; // most decimals of a share

function asMeasured(value, score) {
  const error = score ? errorOf(score) : null;
  return number(finite(value), error > NO_WIDTH ? Math.min(SHARE_DIGITS, decimals(value, error)) : 2, error);
}

// A name as long as there is room for; the whole of it shows when it is pointed at.
export function named(text) {
  return h("span", { class: "name", title: text }, text);
}

export function moment(text) {
  const time = new Date(text);
  return Number.isNaN(time.valueOf()) ? String(text ?? "–") : time.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

export function duration(seconds) {
  const known = finite(seconds);
  if (known === null) return "–";
  if (known < 60) return `${number(known, known < 0.1 ? 3 : known < 10 ? 1 : 0)} s`;
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

const MORE_ROWS = 1000;

// A table that can be sorted: columns are {name, title, value(row), cell(row), text?, down?, spare?}; a narrow
// window has no spare ones. Of more than so many rows
// the first are shown. How it is sorted is remembered by its caption.
export function table(columns, rows, { caption, sort, onsort, mark, most = Infinity } = {}) {
  let by = recall(`sort/${caption}`) ?? sort;
  let limit = recall(`rows/${caption}`) ?? most;
  const body = h("tbody");
  const more = h("button", { type: "button", class: "plain", click: () => {
    limit += MORE_ROWS;
    remember(`rows/${caption}`, limit);
    draw();
  } }, `Show more of ${count(rows.length)} rows`);
  const heads = columns.map((column) => {
    const button = h("button", { type: "button", title: column.title, click: () => turn(column) }, column.name);
    return h("th", { scope: "col", class: classOf(column) }, button);
  });
  function turn(column) {
    const down = by?.name === column.name ? !by.down : !column.text && column.down !== false;
    by = { name: column.name, down };
    remember(`sort/${caption}`, by);
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
    more.hidden = shown.length <= limit;
    put(body, shown.slice(0, limit).map((row) => h("tr", { class: mark?.(row) }, columns.map((own) =>
      h("td", { class: classOf(own) }, own.cell ? own.cell(row) : own.value(row) ?? "–")))));
  }
  draw();
  return h("div", null, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", null, h("caption", { class: "unseen" }, caption), h("thead", null, h("tr", null, heads)), body)), more);
}

function classOf({ text, spare }) {
  return [text ? "text" : null, spare ? "spare" : null].filter(Boolean).join(" ") || null;
}

function missing(value) {
  return value === null || value === undefined || value === "" ? 1 : 0;
}

function compared(a, b) {
  if (typeof a === "string" || typeof b === "string") return String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true });
  return (finite(a) ?? -Infinity) - (finite(b) ?? -Infinity) || 0;
}
