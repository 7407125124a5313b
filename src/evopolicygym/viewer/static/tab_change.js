// What a submission changed: against the one before, the starter, any other of this run, or that of another run; or its
// whole source. Lines side by side or below each other, words that differ marked.

import { h, put, link, count, nothing } from "./dom.js";
import { archiveOf, bytesOf, download } from "./archive.js";
import { isKept } from "./kept.js";
import { load } from "./data.js";
import { readdress } from "./memory.js";
import { wordsOf } from "./words.js";

const BEFORE = "before", STARTER = "starter", SOURCE = "source";
const SIDE_BY_SIDE = "sidebyside";

export async function changeTab(run, one, { rest }) {
  let base = rest[0] ?? BEFORE;
  const place = h("div");
  const rivals = isKept ? [] : (await load("runs")).runs.filter((other) => other.task === run.task && other.id !== run.id && other.selected_submission !== null);
  const choice = h("select", { "aria-label": "Compared with", change: () => { base = choice.value; readdress(addressOf(run, one, base)); fill(); } }, options(run, one, rivals, base));
  const wide = h("input", { type: "checkbox", change: () => { keepWide(wide.checked); fill(); } });
  wide.checked = isWide();
  const bar = h("div", { class: "controls" }, h("label", { class: "switch" }, "compared with", choice), h("label", { class: "switch" }, wide, "side by side"),
    h("button", { type: "button", class: "plain", click: save }, "Download its files"));

  async function fill() {
    const asked = base;
    try {
      const found = await fetched(run, one, base);
      if (asked === base) put(place, base === SOURCE ? sources(found) : changes(found, wide.checked, base));
    } catch (error) {
      if (asked === base) put(place, h("p", { class: "trouble", role: "alert" }, error.message));
    }
  }
  async function save() {
    const { files } = await load(`run/${run.id}/source/${one.submission}`);
    if (files) download(`${run.run_id}-submission-${one.submission}.tar`, archiveOf(files.map((file) => [file.path, bytesOf(file)])));
  }
  await fill();
  return { element: h("div", null, bar, place) };
}

function addressOf(run, one, base) {
  return `#/run/${run.id}/${one.submission}/change${base === BEFORE ? "" : `/${base}`}`;
}

function fetched(run, one, base) {
  if (base === SOURCE) return load(`run/${run.id}/source/${one.submission}`);
  if (base === BEFORE) return load(`run/${run.id}/submission/${one.submission}`);
  return load(`run/${run.id}/change/${one.submission}/${base.split(":").map(encodeURIComponent).join("/")}`);
}

// Static pages hold each submission's change to the one before, and its source.
function options(run, one, rivals, base) {
  const option = (value, text) => h("option", { value, selected: value === base }, text);
  const best = run.submission_rows.filter((other) => other.best !== null && other.is_new_best && other.submission !== one.submission).at(-1);
  const known = [BEFORE, SOURCE, STARTER, ...run.submission_rows.map((other) => String(other.submission)), ...rivals.map((other) => `${other.id}:${other.selected_submission}`)].includes(base);
  return [
    option(BEFORE, one.submission ? "the submission before" : "nothing: it is the first"), option(SOURCE, "nothing: the whole source"),
    isKept ? null : [option(STARTER, "the starter"),
      best ? option(String(best.submission), `the best, submission ${best.submission}`) : null,
      run.submission_rows.filter((other) => other !== one && other.submission !== one.submission - 1 && other.submission !== best?.submission).map((other) => option(String(other.submission), `submission ${other.submission}`)),
      rivals.length ? h("optgroup", { label: "selected by another run" }, rivals.map((other) => option(`${other.id}:${other.selected_submission}`, `${other.entry}, seed ${other.seed}`))) : null],
    known ? null : option(base, base),
  ];
}

function isWide() {
  try { return localStorage.getItem(SIDE_BY_SIDE) === "1"; } catch { return false; }
}

function keepWide(on) {
  try { localStorage.setItem(SIDE_BY_SIDE, on ? "1" : "0"); } catch { /* then it is not remembered */ }
}

function gone() {
  return nothing("The checkpoint is not in this record.", "Records that were moved without their folder checkpoints/ have no changes to show.");
}

function sources({ files, more_files: more }) {
  if (!files) return gone();
  return [files.map((file) => h("article", { class: "file" },
    fileHead(file.path, `${count(file.size)} bytes`, null, file.text === null && !file.bytes ? null : h("button", { type: "button", class: "plain", click: () => download(file.path.split("/").at(-1), bytesOf(file)) }, "Download")),
    file.text === null ? h("p", { class: "soft" }, file.bytes ? "Not text." : "Too large to be shown.") : listing(file))), more ? h("p", { class: "soft" }, `${count(more)} more files.`) : null];
}

function listing(file) {
  const lines = file.text.replace(/\n$/, "").split("\n");
  return pieces(lines.map((text, place) => () => h("div", { class: "row one" }, h("span", { class: "no" }, place + 1), h("span", { class: "text" }, text))), `Source of ${file.path}`);
}

function changes({ files, more_files: more }, wide, base) {
  if (!files) return gone();
  if (!files.length) return nothing(base === BEFORE ? "No file differs from the submission before." : "No file differs.", base === BEFORE ? "It was submitted as it was." : "");
  return [files.map((file) => diff(file, wide)), more ? h("p", { class: "soft" }, `${count(more)} more files differ.`) : null];
}

function diff(file, wide) {
  const blocks = blocksOf(file.rows);
  const rows = blocks.flatMap((block) => (block.same ? [block.gap ? () => h("div", { class: "gap" }, "⋯") : () => same(block, wide)] : (wide ? paired : stacked)(block)));
  return h("article", { class: "file" }, fileHead(file.path, file.kind === "changed" ? "" : file.kind, file.added === undefined ? null : h("span", { class: "tally" }, h("span", { class: "plus" }, `+${file.added}`), " ", h("span", { class: "minus" }, `−${file.removed}`))),
    file.note ? h("p", { class: "soft" }, file.note) : null, file.rows.length ? pieces(rows, `Change of ${file.path}`) : null, file.cut ? h("p", { class: "soft" }, `${count(file.cut)} more lines are not shown here.`) : null);
}

function fileHead(path, note, ...more) {
  return h("header", null, h("code", null, path), h("span", { class: "soft" }, note), more);
}

// Rows as the document has them, [sign, old number, new number, text], in blocks: a line that stayed, a gap, or lines
// that went with those that came in their place, words that differ marked in both.
function blocksOf(rows) {
  const found = [];
  for (const [sign, before, after, text] of rows) {
    if (sign === "@" || sign === " ") { found.push({ same: true, gap: sign === "@", before, after, text }); continue; }
    if (!found.length || found.at(-1).same) found.push({ minus: [], plus: [] });
    found.at(-1)[sign === "-" ? "minus" : "plus"].push({ number: before ?? after, words: [[text, false]] });
  }
  for (const { minus = [], plus = [] } of found) minus.forEach((line, place) => {
    if (place < plus.length) [line.words, plus[place].words] = wordsOf(line.words[0][0], plus[place].words[0][0]);
  });
  return found;
}

function cell(words) {
  return h("span", { class: "text" }, words.map(([text, differs]) => (differs ? h("mark", null, text) : text)));
}

function numbered(number) {
  return h("span", { class: "no" }, number ?? "");
}

function same({ before, after, text }, wide) {
  const words = [[text, false]];
  return wide ? h("div", { class: "row wide" }, numbered(before), cell(words), numbered(after), cell(words))
    : h("div", { class: "row" }, numbered(before), numbered(after), h("span", { class: "sign" }, " "), cell(words));
}

function stacked({ minus, plus }) {
  return [
    ...minus.map(({ number, words }) => () => h("div", { class: "row minus" }, numbered(number), numbered(null), h("span", { class: "sign" }, "−"), cell(words))),
    ...plus.map(({ number, words }) => () => h("div", { class: "row plus" }, numbered(null), numbered(number), h("span", { class: "sign" }, "+"), cell(words)))];
}

function paired({ minus, plus }) {
  const side = (line, name) => (line ? [h("span", { class: `no ${name}` }, line.number), h("span", { class: `text ${name}` }, cell(line.words))] : [h("span", { class: "no" }), h("span", { class: "text" })]);
  return Array.from({ length: Math.max(minus.length, plus.length) }, (_, place) => () => h("div", { class: "row wide" }, side(minus[place], "minus"), side(plus[place], "plus")));
}

const ROWS = 400;

// Rows in a box, so many at a time.
function pieces(rows, label) {
  const body = h("div", { class: "code", tabindex: "0", role: "region", "aria-label": label });
  let drawn = 0;
  const more = h("button", { type: "button", class: "plain", click: () => draw() }, "Show more");
  function draw() {
    body.append(...rows.slice(drawn, drawn + ROWS).map((make) => make()));
    drawn += ROWS;
    more.hidden = drawn >= rows.length;
  }
  draw();
  return [body, more];
}
