// What the policy saw, where that was a picture: drawn at the cursor's step, fetched a block of steps at a time.

import { h } from "./dom.js";
import { load } from "./data.js";

const MOST_BLOCKS = 6;
const CELL = 32;
const COLOURS = ["#e0352b", "#35b04a", "#3d6df2", "#9a5bd6", "#f2d13d", "#9aa0a6"];
const NAMES = ["red", "green", "blue", "purple", "yellow", "grey"];
const THINGS = ["unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent"];

export function picturesOf(address, series) {
  const size = series.pictures_block;
  const blocks = new Map();
  const views = series.pictures.map((part) => {
    const grid = part.meaning === "minigrid";
    const canvas = h("canvas", { class: "picture", role: "img", "aria-label": "What the policy saw", width: part.columns * (grid ? CELL : 1), height: part.rows * (grid ? CELL : 1) });
    return { part, canvas, said: h("figcaption", { class: "soft" }) };
  });
  const element = h("div", { class: "pictures" }, views.map((view) => h("figure", null, view.canvas, view.said)));
  let wanted = 0;
  function block(place) {
    if (!blocks.has(place)) {
      blocks.set(place, load(`${address}/pictures/${place}`).then(({ first, count, pictures }) => ({ first, count, bytes: new Map(Object.entries(pictures).map(([name, text]) => [name, Uint8Array.from(atob(text), (char) => char.charCodeAt(0))])) })));
      if (blocks.size > MOST_BLOCKS) blocks.delete(blocks.keys().next().value);
    }
    return blocks.get(place);
  }
  async function show(at) {
    wanted = at;
    const place = Math.floor(at / size);
    try {
      const found = await block(place);
      if (wanted !== at) return;
      for (const view of views) draw(view, found, at - found.first, series.t[at]);
    } catch (error) {
      blocks.delete(place);
      if (wanted === at) views.forEach((view) => { view.said.textContent = error.message; });
      return;
    }
    if ((place + 1) * size < series.t.length) block(place + 1).catch(() => {});
  }
  return { element, show };
}

function draw({ part, canvas, said }, { count, bytes }, at, step) {
  const pen = canvas.getContext("2d", { willReadFrequently: true }); // few pixels, and all of them are ours
  const size = part.rows * part.columns * part.channels;
  const own = bytes.get(part.name)?.subarray(at * size, (at + 1) * size);
  if (!own || own.length < size || at >= count) { pen.clearRect(0, 0, canvas.width, canvas.height); said.textContent = "not recorded at this step"; return; }
  const what = part.name || "observation";
  if (part.meaning === "minigrid") {
    said.textContent = `${what} at step ${step}: ${grid(pen, part, own)}`;
    return;
  }
  const image = pen.createImageData(part.columns, part.rows);
  for (let place = 0; place < part.rows * part.columns; place += 1) {
    for (let channel = 0; channel < 3; channel += 1) image.data[4 * place + channel] = own[place * part.channels + (part.channels === 3 ? channel : 0)];
    image.data[4 * place + 3] = 255;
  }
  pen.putImageData(image, 0, 0);
  said.textContent = `${what} at step ${step}, ${part.columns} × ${part.rows}`;
}

// A grid of things as MiniGrid tells it: first axis from left to right, second from top to bottom; the policy stands in
// the middle of the lowest row and looks up. Returns in words what is there to be met.
function grid(pen, part, own) {
  const words = [];
  for (let x = 0; x < part.rows; x += 1) for (let y = 0; y < part.columns; y += 1) {
    const [thing, colour, state] = own.subarray(3 * (x * part.columns + y));
    pen.save();
    pen.translate(x * CELL, y * CELL);
    cell(pen, thing, COLOURS[colour] ?? COLOURS[5], state);
    pen.restore();
    if (thing > 3 && thing !== 10) words.push(`${NAMES[colour] ?? ""} ${THINGS[thing] ?? "thing"}${thing === 4 ? [" (open)", " (closed)", " (locked)"][state] ?? "" : ""}`.trim());
  }
  pen.fillStyle = COLOURS[0];
  pen.strokeStyle = "#fff";
  const middle = (Math.floor(part.rows / 2) + 0.5) * CELL, foot = part.columns * CELL;
  pen.beginPath(); pen.moveTo(middle, foot - CELL * 0.4); pen.lineTo(middle + CELL * 0.2, foot - 3); pen.lineTo(middle - CELL * 0.2, foot - 3); pen.closePath(); pen.fill(); pen.stroke();
  return words.length ? words.join(", ") : "nothing but floor and walls";
}

function cell(pen, thing, colour, state) {
  const middle = CELL / 2;
  pen.fillStyle = { 0: "#3a3d42", 2: "#8a8f98", 8: COLOURS[1], 9: "#ff8a1f" }[thing] ?? "#0c0d0f";
  pen.fillRect(0, 0, CELL, CELL);
  pen.strokeStyle = "#2a2d31";
  pen.lineWidth = 1;
  pen.strokeRect(0.5, 0.5, CELL - 1, CELL - 1);
  pen.fillStyle = pen.strokeStyle = colour;
  pen.lineWidth = 3;
  if (thing === 4) {
    if (state === 0) pen.fillRect(2, 2, 5, CELL - 4);
    else pen.strokeRect(4, 4, CELL - 8, CELL - 8);
    if (state === 2) pen.fillRect(middle - 3, middle - 5, 6, 10);
    if (state === 1) { pen.beginPath(); pen.arc(CELL - 10, middle, 2.5, 0, 7); pen.fill(); }
  } else if (thing === 5) {
    pen.beginPath(); pen.arc(middle, 9, 4.5, 0, 7); pen.stroke();
    pen.fillRect(middle - 1.5, 13, 3, 14); pen.fillRect(middle, 18, 6, 3); pen.fillRect(middle, 24, 6, 3);
  } else if (thing === 6) {
    pen.beginPath(); pen.arc(middle, middle, 9, 0, 7); pen.fill();
  } else if (thing === 7) {
    pen.strokeRect(6, 6, CELL - 12, CELL - 12); pen.fillRect(6, middle - 1.5, CELL - 12, 3);
  } else if (thing > 10) {
    pen.beginPath(); pen.moveTo(middle, 6); pen.lineTo(CELL - 6, CELL - 6); pen.lineTo(6, CELL - 6); pen.closePath(); pen.stroke();
  }
}
