// Charts as SVG: axes with titles, marks that tell a reader as much by their shape as by their colour.

import { h, s, finite, named, put } from "./dom.js";
import { downloads } from "./download.js";

export function ticks(low, high, about) {
  if (!(high > low)) return [low];
  const rough = Math.min(1e308, 2 * ((high / 2 - low / 2) / Math.max(1, about))); // in halves: 1e308 less -1e308 is no number
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at += 1) found.push(at * step);
  return found;
}

const MOST = 1.6e308; // so that the steps beyond an end are numbers

export function domain(values, padding = 0.06) {
  const known = values.map(finite).filter((value) => value !== null);
  if (!known.length) return [0, 1];
  const low = known.reduce((a, b) => Math.min(a, b));
  const high = known.reduce((a, b) => Math.max(a, b));
  const room = (high / 2 - low / 2 || Math.abs(high) / 2 || 0.5) * padding * 2;
  return [Math.max(-MOST, low - room), Math.min(MOST, high + room)];
}

export function scale([low, high], [from, to]) {
  const half = high / 2 - low / 2 || 0.5;
  const of = (value) => from + ((value / 2 - low / 2) / half) * (to - from);
  of.back = (place) => 2 * (low / 2 + ((place - from) / (to - from || 1)) * half);
  return of;
}

function plain(value) {
  if (Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-5)) return value.toExponential(2).replace(/\.?0+e/, "e").replaceAll("-", "−").replace("+", "");
  const text = value.toLocaleString("en", { maximumFractionDigits: 6, maximumSignificantDigits: 6 });
  return text === "-0" ? "0" : text.replace("-", "−");
}

const bubble = h("div", { class: "bubble", role: "status", hidden: true });

export function tell(element, lines) {
  const show = (event) => {
    const box = element.getBoundingClientRect();
    put(bubble, (typeof lines === "function" ? lines(event) : lines).map((line) => h("div", null, line)));
    if (!bubble.isConnected) document.body.append(bubble);
    bubble.hidden = false;
    const x = Math.min(window.innerWidth - bubble.offsetWidth - 8, Math.max(8, box.x + box.width / 2 - bubble.offsetWidth / 2));
    const y = box.y - bubble.offsetHeight - 8 > 4 ? box.y - bubble.offsetHeight - 8 : box.bottom + 8;
    bubble.style.left = `${x}px`;
    bubble.style.top = `${y}px`;
  };
  element.addEventListener("pointerenter", show);
  element.addEventListener("pointerleave", quiet);
  return element;
}

export function quiet() {
  bubble.hidden = true;
}

export function mark(shape, x, y, size, attributes) {
  const r = size;
  const paths = {
    square: `M${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
    triangle: `M0,${-r * 1.2}L${r * 1.15},${r * 0.9}H${-r * 1.15}z`,
    down: `M0,${r * 1.2}L${r * 1.15},${-r * 0.9}H${-r * 1.15}z`,
    diamond: `M0,${-r * 1.35}L${r * 1.35},0L0,${r * 1.35}L${-r * 1.35},0z`,
    cross: `M${-r},${-r}L${r},${r}M${r},${-r}L${-r},${r}`,
    bar: `M${-r},0H${r}`,
    plus: `M${-r * 1.3},0H${r * 1.3}M0,${-r * 1.3}V${r * 1.3}`,
  };
  if (!(shape in paths)) return s("circle", { cx: x, cy: y, r, ...attributes });
  return s("path", { d: paths[shape], transform: `translate(${x} ${y})`, ...attributes });
}

export function path(points, attributes) {
  const known = points.filter(([x, y]) => finite(x) !== null && finite(y) !== null);
  const d = known.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
  return s("path", { d: d || "M0,0", fill: "none", ...attributes });
}

export function stairs(points, x, y, end) {
  const found = [];
  points.forEach(([at, value], place) => {
    if (place) found.push([x(at), y(points[place - 1][1])]);
    found.push([x(at), y(value)]);
  });
  if (points.length && end > points.at(-1)[0]) found.push([x(end), y(points.at(-1)[1])]);
  return found;
}

// The powers of ten between two values as {at, text}, and 2 and 5 times each where there are few; text(value) names one.
export function logTicks(low, high, text) {
  const found = [];
  const few = Math.log10(high / low) < 2.5;
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high * (1 + 1e-9); power += 1) {
    for (const times of few ? [1, 2, 5] : [1]) {
      const value = times * 10 ** power;
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) found.push({ at: Math.log10(value), text: text(value) });
    }
  }
  return found;
}

const LETTER = 7.2; // pixels of a digit

// A chart that is drawn anew whenever its place changes its width; left may be a function of that. draw(frame) gets {x, y, left, right, top, bottom};
// rows() gives its numbers to be downloaded. x.ticks are {at, text} where they are not those of plain numbers;
// x.whole has ticks at whole numbers alone, as of episodes.
export function chart({ label, height = 280, x, y, left = 64, bottom = 44, top = 14, right = 18, draw, rows, yTicks = true, role = "img" }) {
  const holder = h("div", { class: "chart" });
  let width = 0;
  let shown = null;
  holder.append(downloads(label, () => shown, rows));
  function redraw() {
    width = holder.clientWidth || 640;
    const texts = yTicks ? ticks(...y.domain, (height - bottom - top) / 52).map((at) => plain(at).length) : [];
    const margin = Math.max(typeof left === "function" ? left(width) : left, LETTER * Math.max(0, ...texts) + (y.title ? 34 : 14));
    const frame = { left: margin, right: width - right, top, bottom: height - bottom, width, height };
    frame.x = scale(x.domain, [frame.left, frame.right]);
    frame.y = scale(y.domain, [frame.bottom, frame.top]);
    const drawing = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role, "aria-label": label });
    drawing.append(axes(frame, x, y, yTicks));
    for (const part of [draw(frame)].flat(2)) if (part) drawing.append(part);
    quiet();
    shown?.remove();
    holder.prepend(drawing);
    shown = drawing;
  }
  new ResizeObserver(() => { if (Math.abs(holder.clientWidth - width) > 1) redraw(); }).observe(holder);
  holder.redraw = redraw;
  return holder;
}

function axes(frame, x, y, yTicks) {
  const parts = s("g", { class: "axes", "aria-hidden": "true" });
  for (const at of yTicks ? ticks(...y.domain, (frame.bottom - frame.top) / 52) : []) {
    const place = frame.y(at);
    parts.append(s("line", { x1: frame.left, x2: frame.right, y1: place, y2: place, class: "grid" }));
    parts.append(s("text", { x: frame.left - 8, y: place + 4, "text-anchor": "end" }, plain(at)));
  }
  const whole = (value) => !x.whole || Number.isInteger(value);
  for (const { at, text } of x.ticks ?? ticks(...x.domain, (frame.right - frame.left) / 90).filter(whole).map((value) => ({ at: value, text: plain(value) }))) {
    const place = frame.x(at);
    parts.append(s("line", { x1: place, x2: place, y1: frame.bottom, y2: frame.bottom + 4, class: "tick" }));
    parts.append(s("text", { x: place, y: frame.bottom + 18, "text-anchor": "middle" }, text));
  }
  parts.append(s("line", { x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom, class: "base" }));
  parts.append(s("text", { x: (frame.left + frame.right) / 2, y: frame.height - 6, "text-anchor": "middle", class: "title" }, x.title));
  if (y.title) {
    const middle = (frame.top + frame.bottom) / 2;
    parts.append(s("text", { x: 14, y: middle, "text-anchor": "middle", class: "title", transform: `rotate(-90 14 ${middle})` }, y.title));
  }
  return parts;
}

// A small interval drawn within a table's cell, on a scale that all rows share.
export function intervalBar(value, interval, [low, high], label) {
  const width = 120;
  const within = scale([low, high], [6, width - 6]);
  const x = (at) => Math.max(2, Math.min(width - 2, within(at)));
  const parts = [s("line", { x1: 2, x2: width - 2, y1: 9, y2: 9, class: "grid" })];
  if (interval) {
    parts.push(s("line", { x1: x(interval[0]), x2: x(interval[1]), y1: 9, y2: 9, class: "whisker" }));
    for (const end of interval.filter((at) => at >= low && at <= high)) parts.push(s("line", { x1: x(end), x2: x(end), y1: 5, y2: 13, class: "whisker" }));
  }
  if (finite(value) !== null) parts.push(mark(interval ? "circle" : "diamond", x(value), 9, 3.5, { class: interval ? "point" : "point open" }));
  return s("svg", { width, height: 18, viewBox: `0 0 ${width} 18`, role: "img", "aria-label": label, class: "inline" }, parts);
}

export function legend(items) {
  return h("ul", { class: "legend" }, items.map(({ shape, className, line, text }) =>
    h("li", null, s("svg", { width: 22, height: 14, viewBox: "0 0 22 14", "aria-hidden": "true" },
      line ? s("line", { x1: 1, x2: 21, y1: 7, y2: 7, class: line }) : null,
      shape ? mark(shape, 11, 7, 4, { class: className }) : null), named(text))));
}
