// What the agent's program said, by pages, with the places of submissions.

import { h, put, count, nothing } from "./dom.js";
import { load } from "./data.js";

export async function transcriptTab(run, one, { body }) {
  let first = await load(`run/${run.id}/transcript/0`);
  const place = h("div", { class: "transcript" });
  const bar = h("div", { class: "pager" });
  const element = h("div", null);
  let at = first.submissions[one.index] ?? 0;
  let shown = []; // texts of the entries that are there

  async function page(number) {
    return number === 0 ? first : load(`run/${run.id}/transcript/${number}`);
  }
  function pager(pages) {
    const step = (to, label) => h("button", { type: "button", class: "plain", disabled: to < 0 || to >= pages, click: () => turn(to) }, label);
    put(bar, step(at - 1, "Earlier"), h("span", { class: "soft" }, `page ${at + 1} of ${pages}`), step(at + 1, "Later"));
  }
  function draw(found) {
    shown = found.entries.map((entry) => JSON.stringify(entry));
    put(place, found.entries.map((entry) => said(entry, one.index)));
    pager(found.pages);
  }
  async function turn(to) {
    const found = await page(to);
    at = to;
    draw(found);
    body.scrollTop = 0;
  }
  // Adds what is new; what is there stays as it is.
  async function refresh() {
    first = await load(`run/${run.id}/transcript/0`);
    if (!first.pages) return;
    const found = at === 0 ? first : await page(at);
    const texts = found.entries.map((entry) => JSON.stringify(entry));
    const same = shown.findIndex((text, number) => text !== texts[number]);
    const from = same === -1 ? shown.length : same;
    while (place.childNodes.length > from) place.lastChild.remove();
    place.append(...found.entries.slice(from).map((entry) => said(entry, one.index)));
    shown = texts;
    if (!element.contains(place)) fill();
    pager(found.pages);
  }
  function fill() {
    if (!first.pages) put(element, nothing("This run has no transcript.", "Built-in agents such as the tuner say nothing; programs and models do."));
    else put(element, first.submissions[one.index] === undefined ? h("p", { class: "note" }, "Where in it this submission was made is not known: its lines have no times.") : null, bar, place);
  }
  if (first.pages) draw(await page(at));
  fill();
  return {
    element, refresh,
    ready: () => {
      const here = place.querySelector(".here");
      if (here) body.scrollTop = here.offsetTop - 90;
    },
  };
}

function said(entry, index) {
  if (entry.role === "submission") {
    return h("div", { class: entry.submission === index ? "submitted here" : "submitted" }, `submission ${entry.submission}`);
  }
  return h("div", { class: `said ${["assistant", "user", "tool"].includes(entry.role) ? entry.role : ""}` },
    entry.role || entry.time ? h("div", { class: "who" }, entry.role, entry.time ? h("span", { class: "soft" }, ` ${entry.time.slice(11, 19)}`) : null) : null,
    h("pre", null, entry.text), entry.cut ? h("p", { class: "soft" }, `${count(entry.cut)} more characters`) : null);
}
