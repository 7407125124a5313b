// A chart to take away: its drawing as SVG and PNG, its numbers as CSV and Markdown, made by the browser alone.

import { h, s, finite } from "./dom.js";

const DRAWN = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor"];
const SHARPNESS = 2; // pixels of a PNG for each of the page

// A closed menu; drawing() gives the SVG as it is shown, rows() the numbers: a row of names, then those of values.
export function downloads(label, drawing, rows) {
  const name = label.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 80) || "chart";
  const button = (form, kind, make) => h("button", { type: "button", class: "plain", click: async () => save(`${name}.${form}`, kind, await make()) }, form.toUpperCase());
  const text = () => new XMLSerializer().serializeToString(standalone(drawing()));
  return h("details", { class: "downloads" }, h("summary", null, "Download", h("span", { class: "unseen" }, `: ${label}`)),
    button("svg", "image/svg+xml", text), button("png", "image/png", () => pixels(drawing(), text())),
    rows ? [button("csv", "text/csv", () => csv(rows())), button("md", "text/markdown", () => markdown(rows()))] : null);
}

function save(name, kind, content) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: kind }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// A copy that looks the same without the page's styles, on the page's ground.
function standalone(drawing) {
  const copy = drawing.cloneNode(true);
  const [before, after] = [drawing, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  before.forEach((element, place) => {
    const style = getComputedStyle(element);
    for (const property of DRAWN) after[place].setAttribute(property, style.getPropertyValue(property));
    after[place].removeAttribute("class");
  });
  for (const anchor of [...copy.querySelectorAll("a")]) anchor.replaceWith(...anchor.childNodes); // no address of a page
  copy.prepend(s("rect", { width: "100%", height: "100%", fill: getComputedStyle(document.body).backgroundColor }));
  return copy;
}

async function pixels(drawing, text) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = h("canvas", { width: SHARPNESS * drawing.clientWidth, height: SHARPNESS * drawing.clientHeight });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;

// A text that begins as a formula does gets an apostrophe unless it is a number, as in all our CSVs (csv_text in core/text.py).
export function csv(rows) {
  const cell = (value) => {
    const text = written(value);
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) && !NUMBER.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => `${row.map(cell).join(",")}\n`).join("");
}

export function markdown([names, ...rows]) {
  const cell = (value) => written(value).replace(/[\\|<>`*_[\]]/g, "\\$&").replace(/\s+/g, " ");
  const line = (cells) => `| ${cells.join(" | ")} |\n`;
  return line(names.map(cell)) + line(names.map(() => "---")) + rows.map((row) => line(row.map(cell))).join("");
}

function written(value) {
  if (typeof value === "number") return finite(value) === null ? "" : String(value);
  return value === null || value === undefined ? "" : String(value);
}
