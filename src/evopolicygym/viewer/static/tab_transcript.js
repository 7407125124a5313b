// What the agent said, as a conversation: pages below each other, a search through all of them, a link to each message.
// While a run goes on, messages are added and what is read stays where it is; who reads the end, follows it.

import { h, put, count, short, money, moment, finite, nothing } from "./dom.js";
import { load } from "./data.js";
import { readdress } from "./memory.js";
import { message, marked, textsOf } from "./message.js";

const MOST_HITS = 200;
const TYPING_MS = 200;
const NEAR_END = 40; // pixels
const AROUND = 60; // characters of a text around what was found in it

export async function transcriptTab(run, one, { rest, body }) {
  const address = (entry) => `#/run/${run.id}/${one.submission}/transcript/${entry.at}`;
  const page = (number) => load(`run/${run.id}/transcript/${number}`);
  let first = await page(0);
  let pages = new Map(); // entries by the number of their page: those that are shown, one after another
  let drawn = new Map(); // by key: an entry's text, by which it is known to be the same, and its element
  let open = false, query = "", target = null;
  const list = h("div", { class: "transcript" });
  const earlier = h("button", { type: "button", class: "plain", click: () => more(-1) }, "Earlier");
  const later = h("button", { type: "button", class: "plain", click: () => more(1) }, "Later");
  const where = h("span", { class: "soft" });
  const unfold = h("button", { type: "button", class: "plain", click: () => { open = !open; drawn = new Map(); draw(); } });
  const searched = search(first, page, (entry, words) => { query = words; go(entry.at); });
  const element = h("div");

  const numbers = () => [...pages.keys()].sort((a, b) => a - b);
  const scroller = () => (body.scrollHeight > body.clientHeight + 1 && getComputedStyle(body).maxHeight !== "none" ? body : document.scrollingElement);
  const isAtEnd = () => pages.has(first.pages - 1) && scroller().scrollHeight - scroller().scrollTop - scroller().clientHeight < NEAR_END;

  function draw() {
    const known = new Map(), times = new Map();
    const elements = numbers().flatMap((number) => pages.get(number)).map((entry) => {
      const place = `${entry.at}/${entry.role}/${entry.submission ?? ""}`;
      times.set(place, (times.get(place) ?? 0) + 1);
      const key = `${place}/${times.get(place)}`;
      const text = JSON.stringify([entry, entry.role === "submission" ? run.submission_rows[entry.submission] : null]);
      const before = drawn.get(key);
      const same = before && (before.text === text || isSelected(before.element));
      const own = same ? before : { text, element: message(entry, { run, index: one.submission, address, open, query }) };
      if (before && !same) keepOpen(before.element, own.element);
      known.set(key, own);
      return own.element;
    });
    drawn = known;
    arrange(list, elements);
    const shown = numbers(), last = first.pages - 1;
    put(where, last === 0 ? null : shown.length > 1 ? `pages ${shown[0] + 1} to ${shown.at(-1) + 1} of ${count(last + 1)}` : `page ${shown[0] + 1} of ${count(last + 1)}`);
    earlier.hidden = shown[0] === 0;
    later.hidden = shown.at(-1) === last;
    put(unfold, open ? "Fold all" : "Unfold all");
    list.querySelectorAll("[aria-current]").forEach((old) => old.removeAttribute("aria-current"));
    elementAt(target)?.setAttribute("aria-current", "location");
  }
  function elementAt(at) {
    return at === null ? null : [...list.children].findLast((own) => !own.matches(".submitted") && Number(own.dataset.at) <= at) ?? list.firstChild;
  }
  // Redraws, and leaves in its place on the screen the message that is read.
  function redraw() {
    const top = scroller() === body ? body.getBoundingClientRect().top : 0;
    const read = [...list.children].find((own) => own.getBoundingClientRect().bottom > top + 1);
    const before = read?.getBoundingClientRect().top;
    draw();
    if (read?.isConnected) scroller().scrollTop += read.getBoundingClientRect().top - before;
  }
  async function more(step) {
    const shown = numbers(), number = step < 0 ? shown[0] - 1 : shown.at(-1) + 1;
    try {
      pages.set(number, (await page(number)).entries);
      redraw();
    } catch (error) {
      put(where, error.message);
    }
  }
  async function only(number) {
    pages = new Map([[number, number === 0 ? first.entries : (await page(number)).entries]]);
    draw();
  }
  // Shows the message that begins at an offset, or has it.
  async function go(at) {
    target = at;
    readdress(address({ at }));
    const number = Math.max(0, first.starts.findLastIndex((start) => start <= at));
    drawn = new Map();
    try {
      if (pages.has(number)) draw();
      else await only(number);
      reveal();
    } catch (error) {
      put(where, error.message);
    }
  }
  function reveal() {
    const here = target === null ? list.querySelector(".here") : elementAt(target);
    if (!here) return;
    if (scroller() === body) body.scrollTop += here.getBoundingClientRect().top - body.getBoundingClientRect().top - 90;
    if (target === null) return;
    if (scroller() === body) body.scrollIntoView({ block: "nearest" });
    else here.scrollIntoView({ block: "center" });
    here.focus({ preventScroll: true });
  }
  async function refresh(next, submission) {
    [run, one] = [next, submission];
    const follows = first.pages > 0 && isAtEnd(), before = first.pages;
    first = await page(0);
    searched.update(first);
    if (!first.pages) return;
    if (!before) { await only(0); fill(); return; }
    const last = numbers().at(-1);
    for (let number = last; number <= (follows ? first.pages - 1 : last); number += 1) pages.set(number, number === 0 ? first.entries : (await page(number)).entries);
    redraw();
    if (follows) scroller().scrollTop = scroller().scrollHeight;
  }
  function fill() {
    if (!first.pages) { put(element, nothing("This run has no transcript.", "Built-in agents such as the tuner say nothing; programs and models do.")); return; }
    put(element, first.submissions[one.submission] === undefined ? h("p", { class: "note" }, "Where in it this submission was made is not known: its lines have no times.") : null,
      turns(run), h("div", { class: "controls" }, searched.input, unfold), searched.element, h("div", { class: "pager" }, earlier, where), list, h("div", { class: "pager" }, later));
  }

  list.addEventListener("click", (event) => {
    const anchor = event.target.closest("a.anchor");
    if (!anchor || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    target = Number(anchor.closest("[data-at]").dataset.at);
    readdress(anchor.getAttribute("href"));
    draw();
  });
  const asked = Number.parseInt(rest?.[0] ?? "", 10);
  if (Number.isInteger(asked)) target = asked;
  if (first.pages) await only(target === null ? first.submissions[one.submission] ?? 0 : Math.max(0, first.starts.findLastIndex((start) => start <= target)));
  fill();
  return { element, refresh, ready: reveal };
}

// Has an element hold these children in this order; those that it holds already aren't moved.
function arrange(list, elements) {
  const wanted = new Set(elements);
  [...list.children].filter((own) => !wanted.has(own)).forEach((own) => own.remove());
  elements.forEach((own, place) => { if (list.children[place] !== own) list.insertBefore(own, list.children[place] ?? null); });
}

function keepOpen(before, after) {
  const was = [...before.querySelectorAll("details")].map((own) => own.open);
  [...after.querySelectorAll("details")].forEach((own, place) => { own.open = was[place] ?? own.open; });
}

function isSelected(element) {
  const chosen = getSelection();
  return !chosen.isCollapsed && chosen.rangeCount > 0 && chosen.getRangeAt(0).intersectsNode(element);
}

// When each of the agent's turns was, how it ended and what it used.
function turns(run) {
  if (!run.agent_turns.length) return null;
  const used = ({ usage }) => [finite(usage.input) === null ? null : `${short(usage.input)} tokens in, ${short(usage.output ?? 0)} out`, finite(usage.cost) === null ? null : money(usage.cost, usage.cost_is_lower_bound)];
  return h("details", { class: "turns" }, h("summary", null, run.agent_turns.length === 1 ? "One turn of the agent" : `${count(run.agent_turns.length)} turns of the agent`),
    h("ol", null, run.agent_turns.map((turn) => h("li", null, [moment(turn.started_at), turn.end?.replaceAll("_", " ") ?? "goes on", ...used(turn)].filter(Boolean).join(" · ")))));
}

// A field for words and the list of messages that have them, page by page as they are read; chosen(entry, words).
function search(first, page, chosen) {
  const status = h("p", { class: "soft", role: "status" }), hits = h("ol", { class: "hits" });
  const element = h("div", { hidden: true }, status, hits);
  let turn = 0, timer = 0;
  const input = h("input", { type: "search", placeholder: "Search the transcript", "aria-label": "Search the transcript", input: () => { clearTimeout(timer); timer = setTimeout(find, TYPING_MS); } });
  async function find() {
    const own = (turn += 1), words = input.value.trim().toLowerCase();
    element.hidden = !words;
    put(hits);
    let number = 0, left_out = 0;
    const tell = (end) => put(status, `${count(hits.children.length)} ${hits.children.length === 1 ? "message" : "messages"}${hits.children.length >= MOST_HITS ? ", the first" : ""}`,
      end ? "" : `, page ${number + 1} of ${count(first.pages)} …`, left_out ? `; ${count(left_out)} pages are not here` : "");
    for (; words && number < first.pages && hits.children.length < MOST_HITS; number += 1) {
      const found = await page(number).catch(() => null);
      if (own !== turn) return;
      if (!found) left_out += 1;
      hits.append(...(found?.entries ?? []).map((entry) => hit(entry, words)).filter(Boolean).slice(0, MOST_HITS - hits.children.length));
      tell(false);
    }
    tell(true);
  }
  function hit(entry, words) {
    const text = textsOf(entry).find((own) => own.toLowerCase().includes(words));
    if (text === undefined) return null;
    const at = text.toLowerCase().indexOf(words), from = Math.max(0, at - AROUND);
    const around = `${from ? "…" : ""}${text.slice(from, at + words.length + AROUND)}`.replaceAll("\n", " ");
    return h("li", null, h("button", { type: "button", class: "hit", click: () => chosen(entry, words) }, h("span", { class: "soft" }, `${entry.role || "output"} `), marked(around, words)));
  }
  return { input, element, update: (next) => { first = next; } };
}
