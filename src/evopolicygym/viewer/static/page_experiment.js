// An experiment: its tasks by entries, what is missing, and the options that its runs share and those that differ.

import { h, link, named, plural, plusMinus, count, table, section, facts, fact, finite, percent } from "./dom.js";
import { load, follow } from "./data.js";
import { entryAddress, groupedName, runColumns } from "./page_entry.js";
import { region } from "./region.js";

export async function experimentPage({ words: [id = ""] }) {
  const address = `experiment/${encodeURIComponent(id)}`;
  let found = await load(address);
  const content = region(parts);
  const draw = () => content.show(found);
  draw();
  const name = found.experiment;
  return { title: name, element: content.element, crumbs: [[null, name]], end: follow("pulse", async () => { found = await load(address); draw(); }) };
}

function parts(found) {
  const sum = (key) => found.cells.reduce((total, cell) => total + cell[key], 0);
  const missing = sum("missing"), finished = sum("finished");
  const entries = [...new Set(found.entries.map((one) => one.entry))];
  const groups = new Set(found.entries.map((one) => one.group)).size;
  const differing = Object.entries(found.options.differing);
  return [
    h("div", { class: "head" }, h("div", null, h("h1", null, h("span", { class: "on" }, "Experiment "), named(found.experiment)),
      h("p", { class: "lead" }, `${plural(found.runs.length, "run")} of ${plural(entries.length, "entry", "entries")} on ${plural(found.tasks.length, "task")}`))),
    facts(fact("finished", `${count(finished)} of ${count(found.runs.length)}`), fact("episodes", `${count(found.spent)} of ${count(found.budget)} (${percent(found.spent / found.budget)})`),
      fact("missing runs", count(missing)), fact("cases", found.secrets.join(", "), found.is_shared ? h("span", { class: "soft", title: "Other machines hold the secret of its cases as well" }, " (secret shared)") : null), fact("id", h("code", null, found.experiment_id))),
    section("Tasks by entries", `Mean held-out return ± its standard error, and how many runs are finished of ${count(found.repeats)}.`, table([
      { name: "task", text: true, value: (task) => task, cell: (task) => link(`#/task/${encodeURIComponent(task)}`, named(task)) },
      ...found.entries.map((one) => ({ name: groupedName(one), value: (task) => finite(cellOf(found, task, one).mean), cell: (task) => cell(cellOf(found, task, one), found.repeats) })),
    ], found.tasks, { caption: "Tasks by entries" }), groups > 1 ? h("p", { class: "note" }, "Runs of an entry that may not be compared have a column for each of their groups.") : null, h("p", null, "Entries: ", entries.map((entry, place) => [place ? ", " : null, link(entryAddress(entry), named(entry))]))),
    missing ? section("Missing runs", `Against the most runs that any entry has on any task, ${count(found.repeats)}.`, h("ul", null, found.cells.filter((item) => item.missing).map((item) => h("li", null, `${groupedName(item)} on ${item.task}: ${count(item.missing)}`)))) : null,
    section("Options that differ", null, differing.length ? h("dl", { class: "options" }, differing.map(([name, values]) => [h("dt", null, name), h("dd", null, values.map(([value, runs]) => `${value} (${count(runs)})`).join("; "))])) : h("p", { class: "soft" }, "None.")),
    section("Options that all runs share", null, h("dl", { class: "options" }, Object.entries(found.options.shared).map(([name, value]) => [h("dt", null, name), h("dd", null, value)]))),
    section("Runs", null, table(runColumns(found.runs, ["experiment"]), found.runs, { caption: "Runs", most: 200 })),
  ];
}

function cellOf(found, task, { entry, group }) {
  return found.cells.find((cell) => cell.task === task && cell.entry === entry && cell.group === group);
}

function cell(item, repeats) {
  if (!item.runs.length) return h("span", { class: "tag bad" }, "missing");
  const score = item.mean === null ? "–" : plusMinus(item.mean, item.standard_error);
  const made = item.finished < repeats ? h("span", { class: "tag" }, `${item.finished} of ${repeats}`) : null;
  return [item.runs.length === 1 ? link(`#/run/${item.runs[0]}`, score) : score, made];
}
