// Which page is shown, by the address after the #; keys, dark and light.

import { h, link, put } from "./dom.js";
import { load } from "./data.js";
import { quiet } from "./chart.js";
import { entryLooks } from "./looks.js";
import { enterPage, recall, remember } from "./memory.js";
import { suitePage } from "./page_suite.js";
import { taskPage } from "./page_task.js";
import { runPage } from "./page_run.js";
import { episodePage } from "./page_episode.js";
import { comparePage } from "./page_compare.js";
import { entryPage } from "./page_entry.js";
import { experimentPage } from "./page_experiment.js";
import { reportPage } from "./page_report.js";

const PAGES = new Map(Object.entries({ "": suitePage, task: taskPage, run: runPage, episode: episodePage, compare: comparePage, entry: entryPage, experiment: experimentPage, report: reportPage }));
const main = document.getElementById("main");
const crumbs = document.getElementById("crumbs");
let settings = {};
let shown = null; // the page that is there: {key, update?, keys?, end?}
let settled = false; // whether it is scrolled to where it is to be
let turn = 0;

function route() {
  const [path, asked = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const words = path.split("/").filter(Boolean).map((word) => { try { return decodeURIComponent(word); } catch { return word; } });
  return { kind: words[0] ?? "", words: words.slice(1), asked: new URLSearchParams(asked), settings };
}

async function go() {
  if (location.hash === "#main") return;
  quiet();
  settled = false;
  const known = enterPage();
  const now = route();
  const key = `${now.kind}/${now.words[0] ?? ""}`;
  if (shown?.key === key && shown.update) {
    shown.update(now);
    settled = true;
    return;
  }
  shown?.end?.();
  shown = null;
  const own = (turn += 1);
  const waiting = setTimeout(() => put(main, h("p", { class: "loading", role: "status" }, "Loading …")), 120);
  try {
    const make = PAGES.get(now.kind);
    if (!make) throw new Error(`There is no page “${now.kind}” here.`);
    now.look = await entryLooks(settings);
    const page = await make(now);
    clearTimeout(waiting);
    if (own !== turn) { page.end?.(); return; }
    shown = { key, ...page };
    put(main, page.element);
    document.title = `${page.title} – EvoPolicyGym`;
    put(crumbs, link("#/", "EvoPolicyGym"), (page.crumbs ?? []).map(([to, text]) => (to ? link(to, text) : h("span", { "aria-current": "page" }, text))));
    window.scrollTo(0, 0);
    await page.ready?.();
    if (own === turn) settle(known ? recall("scroll") ?? 0 : 0);
  } catch (error) {
    if (own !== turn) return;
    document.title = "Not shown – EvoPolicyGym";
    put(main, h("div", { class: "trouble", role: "alert" }, h("h1", null, "This can’t be shown"), h("p", null, error.message), h("p", null, link("#/", "All runs"))));
  } finally {
    clearTimeout(waiting);
  }
}

// Scrolls to where the page was left, unless its reader has scrolled it meanwhile.
function settle(place) {
  if (place && window.scrollY === 0) window.scrollTo(0, place);
  settled = true;
}

const KEYS = [
  ["j / k, ↓ / ↑", "next and previous submission"], ["1 2 3 4", "change, feedback, transcript, episodes of a submission"],
  ["[ / ]", "previous and next new best"], ["← / →", "the tab beside; a step of an episode, with Shift ten"], ["Space", "play and pause an episode"],
  ["/", "filter"], ["c", "clear all filters"], ["g", "all runs"], ["t", "dark or light"], ["?", "these keys"],
];
const help = h("dialog", { "aria-labelledby": "help-title" }, h("h2", { id: "help-title" }, "Keys"),
  h("dl", { class: "keys" }, KEYS.map(([key, what]) => [h("dt", null, key), h("dd", null, what)])),
  h("form", { method: "dialog" }, h("button", { type: "button", class: "plain", click: () => help.close() }, "Close")));
document.body.append(help);

function theme(next) {
  const dark = document.documentElement.dataset.theme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  const wanted = next ?? (dark ? "light" : "dark");
  document.documentElement.dataset.theme = wanted;
  try { localStorage.setItem("theme", wanted); } catch { /* then it is not remembered */ }
  window.dispatchEvent(new Event("themechange"));
}

// Keys that scroll belong to the part of a page that has the focus and can be scrolled.
const SCROLLING = new Set(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", " "]);
const SCROLLABLE = ".code, .scroll, .tabbody, pre, summary";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open || event.defaultPrevented) return;
  const typing = event.target.closest?.("input:not([type=range], [type=checkbox]), textarea, select");
  if (event.key === "Escape" && typing) typing.blur();
  if (typing || (SCROLLING.has(event.key) && event.target.matches?.(SCROLLABLE))) return;
  if (event.key === "?") help.showModal();
  else if (event.key === "t") theme();
  else if (event.key === "g") location.hash = "#/";
  else if (event.key === "/") {
    const filter = main.querySelector("input[type=search]");
    if (!filter) return;
    filter.focus();
  } else if (!shown?.keys?.(event)) return;
  event.preventDefault();
});
document.getElementById("theme").addEventListener("click", () => theme());
document.getElementById("help").addEventListener("click", () => help.showModal());
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
history.scrollRestoration = "manual";
window.addEventListener("hashchange", go);
window.addEventListener("scroll", () => {
  quiet();
  if (settled) remember("scroll", window.scrollY);
}, { passive: true });
try { const kept = localStorage.getItem("theme"); if (kept) theme(kept); } catch { /* as the system has it */ }
settings = await load("settings").catch(() => ({}));
go();
