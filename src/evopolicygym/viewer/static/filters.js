// Filters of the list of runs: one choice for each of some properties, with how many runs each choice leaves.

import { h, put, count } from "./dom.js";
import { experimentName } from "./page_entry.js";

const STATES = { scored: "scored", unscored: "nothing to score", live: "being played", interrupted: "interrupted" };
const stateName = (run) => (run.stage !== "finished" ? (run.is_played ? "live" : "interrupted") : run.status === "scored" ? "scored" : "unscored");

// What runs are filtered by: the values that a run has, and the text of each.
const FACETS = [
  { name: "agent", values: (run) => [run.agent] },
  { name: "task", values: (run) => [run.task] },
  { name: "experiment", values: (run) => (run.experiment_id ? [run.experiment_id] : []), text: (_, run) => experimentName(run) },
  { name: "state", values: (run) => [stateName(run)], text: (value) => STATES[value] },
  { name: "tag", values: (run) => run.tags ?? [] },
];

// Returns {element, chosen, show(runs), clear()}: show gives the runs that all choices leave.
export function runFilters(asked, changed) {
  const chosen = new Map(FACETS.filter(({ name }) => asked.get(name)).map(({ name }) => [name, asked.get(name)]));
  const selects = new Map(FACETS.map(({ name }) => [name, h("select", { "aria-label": `Runs by ${name}`, change: (event) => {
    if (event.target.value) chosen.set(name, event.target.value);
    else chosen.delete(name);
    changed();
  } })]));
  const clear = h("button", { type: "button", class: "plain", title: "Clear all filters (c)", click: () => api.clear() }, "Clear all");
  const left = h("span", { class: "soft", role: "status" });
  const drawn = new Map();
  const passes = (run, except) => FACETS.every((facet) => facet.name === except || !chosen.has(facet.name) || facet.values(run).includes(chosen.get(facet.name)));

  function fill(facet, runs) {
    const counts = new Map();
    for (const run of runs) for (const value of facet.values(run)) {
      const known = counts.get(value) ?? { number: 0, text: facet.text?.(value, run) ?? value };
      if (passes(run, facet.name)) known.number += 1;
      counts.set(value, known);
    }
    const own = chosen.get(facet.name);
    if (own && !counts.has(own)) counts.set(own, { number: 0, text: own });
    const all = [...counts].filter(([value, { number }]) => number || value === own).sort(([, a], [, b]) => a.text.localeCompare(b.text, "en", { numeric: true }));
    const select = selects.get(facet.name);
    const text = JSON.stringify([all, own]);
    select.parentElement.hidden = counts.size < 2 && !own && facet.name !== "tag" || !counts.size;
    if (drawn.get(facet.name) === text) return;
    drawn.set(facet.name, text);
    put(select, h("option", { value: "" }, `any ${facet.name}`), all.map(([value, known]) => h("option", { value }, `${known.text} (${count(known.number)})`)));
    select.value = own ?? "";
  }

  const element = h("div", { class: "filters", role: "group", "aria-label": "Filters of runs" }, FACETS.map(({ name }) => h("span", null, selects.get(name))), left, clear);
  const api = {
    element, chosen,
    show(runs, isSearched) {
      for (const facet of FACETS) fill(facet, runs);
      const found = runs.filter((run) => passes(run));
      clear.hidden = !chosen.size && !isSearched;
      put(left, `${count(found.length)} of ${count(runs.length)} runs`);
      return found;
    },
    clear() { chosen.clear(); changed(true); },
  };
  return api;
}
