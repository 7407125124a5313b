// An experiment: its tasks by entries, what is missing, and the options that its runs share and those that differ.

import { h, link, named, plusMinus, count, table, section, facts, fact, finite, percent } from "./dom.js";
import { load, follow } from "./data.js";
import { entryAddress, runColumns } from "./page_entry.js";
import { region } from "./region.js";

export async function experimentPage({ words: [id = ""] }) {
  const address = `experiment/${encodeURIComponent(id)}`;
  let found = await load(address);
  const content = region(parts);
  const draw = () => content.show(found);
  draw();
  const name = found.name || found.id;
  return { title: name, element: content.element, crumbs: [[null, name]], end: follow("pulse", async () => { found = await load(address); draw(); }) };
}

function parts(found) {
  const sum = (key) => found.cells.reduce((total, cell) => total + cell[key], 0);
  const missing = sum("missing"), finished = sum("finished");
  const differing = Object.entries(found.options.differing);
  return [
    h("div", { class: "head" }, h("div", null, h("h1", null, h("span", { class: "on" }, "Experiment "), named(found.name || found.id)),
      h("p", { class: "lead" }, `${count(found.runs.length)} runs of ${count(found.entries.length)} ${found.entries.length === 1 ? "entry" : "entries"} on ${count(found.tasks.length)} ${found.tasks.length === 1 ? "task" : "tasks"}`))),
    facts(fact("finished", `${count(finished)} of ${count(found.runs.length)}`), fact("episodes", `${count(found.spent)} of ${count(found.budget)} (${percent(found.spent / found.budget)})`),
      fact("missing runs", count(missing)), fact("cases", found.secrets.join(", "), found.is_shared ? h("span", { class: "soft", title: "Other machines hold the secret of its cases as well" }, " (secret shared)") : null), fact("id", h("code", null, found.id))),
    section("Tasks by entries", `Mean held-out return ± its standard error, and how many runs are finished of ${count(found.repeats)}.`, table([
      { name: "task", text: true, value: (task) => task, cell: (task) => link(`#/task/${encodeURIComponent(task)}`, named(task)) },
      ...found.entries.map((entry) => ({ name: entry, value: (task) => finite(cellOf(found, task, entry).mean), cell: (task) => cell(cellOf(found, task, entry), found.repeats) })),
    ], found.tasks, { caption: "Tasks by entries" }), h("p", null, "Entries: ", found.entries.map((entry, place) => [place ? ", " : null, link(entryAddress(entry), named(entry))]))),
    missing ? section("Missing runs", `Against the most runs that any entry has on any task, ${count(found.repeats)}.`, h("ul", null, found.cells.filter((item) => item.missing).map((item) => h("li", null, `${item.entry} on ${item.task}: ${count(item.missing)}`)))) : null,
    section("Options that differ", null, differing.length ? h("dl", { class: "options" }, differing.map(([name, values]) => [h("dt", null, name), h("dd", null, values.map(([value, runs]) => `${value} (${count(runs)})`).join("; "))])) : h("p", { class: "soft" }, "None.")),
    section("Options that all runs share", null, h("dl", { class: "options" }, Object.entries(found.options.shared).map(([name, value]) => [h("dt", null, name), h("dd", null, value)]))),
    section("Runs", null, table(runColumns(found.runs, ["experiment"]), found.runs, { caption: "Runs", most: 200 })),
  ];
}

function cellOf(found, task, entry) {
  return found.cells.find((cell) => cell.task === task && cell.entry === entry);
}

function cell(item, repeats) {
  if (!item.runs.length) return h("span", { class: "tag bad" }, "missing");
  const score = item.mean === null ? "–" : plusMinus(item.mean, item.standard_error);
  const made = item.finished < repeats ? h("span", { class: "tag" }, `${item.finished} of ${repeats}`) : null;
  return [item.runs.length === 1 ? link(`#/run/${item.runs[0]}`, score) : score, made];
}
