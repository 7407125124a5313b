// Any number of runs or of entries: their curves on one axis for each task, their scores, and what lies between them.

import { h, link, named, table, number, measured, plusMinus, count, endsOf, errorOf, section, finite, shellWord } from "./dom.js";
import { load } from "./data.js";
import { entryAddress, leaderboardsOf } from "./page_entry.js";
import { captionOf, stateOf } from "./page_suite.js";
import { curves } from "./page_task.js";

const MOST_CURVES = 12; // curves that are drawn on one axis
const MOST_TASKS = 24;
const MOST_COMMANDS = 8; // commands that are printed
const MOST_PAIRS = 32; // runs whose difference to the first is asked for

export async function compareRunsPage({ words: ids, look }) {
  const { runs: all } = await load("runs");
  const runs = ids.map((id) => all.find((run) => run.id === id)).filter(Boolean);
  if (!runs.length) throw new Error("None of these runs is here; choose them in the list of runs.");
  const first = runs[0];
  const pairs = await Promise.all(runs.map((run, place) => (place && place <= MOST_PAIRS && run.task === first.task ? differenceOf(first.id, run.id) : null)));
  const rows = runs.map((run, place) => ({ run, pair: pairs[place] }));
  const element = h("div", null,
    h("div", { class: "head" }, h("div", null, h("h1", null, `${count(runs.length)} runs`), h("p", { class: "lead" }, "Differences are to the first: above zero, the run is better than it."))),
    runs.length < ids.length ? h("p", { class: "warning" }, `${count(ids.length - runs.length)} of the runs that were asked for are not here.`) : null,
    section("Scores", runs.length - 1 > MOST_PAIRS ? `Differences of the first ${MOST_PAIRS} runs.` : null, table([
      { name: "run", text: true, value: (r) => r.run.name || r.run.agent, cell: (r) => link(`#/run/${r.run.id}`, named(r.run.name || r.run.agent)) },
      { name: "task", text: true, value: (r) => r.run.task, cell: (r) => link(`#/task/${encodeURIComponent(r.run.task)}`, named(r.run.task)) },
      { name: "seed", value: (r) => r.run.seed },
      { name: "score ± s.e.", value: (r) => finite(r.run.score), cell: (r) => (r.run.score === null ? "–" : plusMinus(r.run.score, r.run.score_standard_error)) },
      { name: "difference", title: "To the first run, with its 95 % interval over cases", value: (r) => finite(r.pair?.mean), cell: (r) => differenceCell(r, first) },
      { name: "state", text: true, value: (r) => r.run.stage, cell: (r) => stateOf(r.run) },
    ], rows, { caption: "Scores" }), h("p", { class: "note" }, "An interval covers other cases, not what another run of either agent would do.")),
    await overlaid(runs, look));
  return { title: `${runs.length} runs`, element, crumbs: [[null, "Compare"]] };
}

export async function compareEntriesPage({ asked, settings, look }) {
  const names = [...new Set(asked.getAll("entry"))];
  const { runs: all } = await load("runs");
  const boards = await leaderboardsOf(names, settings);
  const missing = names.filter((name) => !boards.own.some((board) => board.entries.some((entry) => entry.entry === name))).length;
  const element = h("div", null,
    h("div", { class: "head" }, h("div", null, h("h1", null, `${count(names.length)} entries`), h("p", { class: "lead" }, names.map((name, place) => [place ? ", " : null, link(entryAddress(name), named(name))])))),
    missing ? h("p", { class: "warning" }, `${count(missing)} of them ${missing === 1 ? "is" : "are"} not on the leaderboard.`) : null,
    boards.own.map((board) => besideEachOther(names, board, boards.all.length > 1)),
    h("div", null, h("p", { class: "note" }, "Whether two entries differ, with intervals paired by case:"), h("ul", { class: "commands" }, commandsOf(names, boards.own, settings).map((command) => h("li", null, h("code", null, command))))),
    await overlaid(all.filter((run) => names.includes(run.agent)), look));
  return { title: `${names.length} entries`, element, crumbs: [[null, "Compare"]] };
}

// The entries' scores among the runs of a group, in all and task by task.
function besideEachOther(names, board, isOneOfSeveral) {
  const entries = names.map((name) => board.entries.find((entry) => entry.entry === name)).filter(Boolean);
  const cellOf = (entry, task) => (Object.hasOwn(entry.tasks, task.name) ? entry.tasks[task.name] : null);
  const tasks = board.tasks.filter((task) => entries.some((entry) => cellOf(entry, task)));
  return [
    isOneOfSeveral ? h("h2", { class: "group" }, board.title) : null,
    section("In all", "With 95 % intervals.", table([
      { name: "entry", text: true, value: (e) => e.entry, cell: (e) => link(entryAddress(e.entry), named(e.entry)) },
      { name: "rank score", value: (e) => finite(e.rank_score?.value), cell: (e) => withInterval(e.rank_score) },
      { name: "normalised", value: (e) => finite(e.normalised?.value), cell: (e) => withInterval(e.normalised) },
      { name: "tasks", value: (e) => e.coverage.tasks }, { name: "wins", value: (e) => e.wins },
    ], entries, { caption: captionOf("Entries", board) })),
    section("Task by task", "Mean held-out return ± its standard error.", table([
      { name: "task", text: true, value: (task) => task.name, cell: (task) => link(`#/task/${encodeURIComponent(task.name)}`, named(task.name)) },
      ...entries.map((entry) => ({ name: entry.entry, value: (task) => finite(cellOf(entry, task)?.mean), cell: (task) => (finite(cellOf(entry, task)?.mean) === null ? "–" : plusMinus(cellOf(entry, task).mean, cellOf(entry, task).standard_error)) })),
    ], tasks, { caption: captionOf("Tasks", board) }))];
}

// The commands that compare the first entry with each other one, with the tables that an entry comes from.
function commandsOf(names, boards, settings) {
  const sources = new Map(boards.flatMap((board) => board.entries).map((entry) => [entry.entry, entry.source]));
  const tables = (settings.shipped ?? []).filter((table) => names.some((name) => sources.get(name) === table.source));
  const shipped = tables.length ? ` --tables ${shellWord(tables.map((table) => table.name).join())}` : "";
  const paths = settings.paths ? ` ${settings.paths}` : "";
  return names.slice(1, MOST_COMMANDS + 1).map((name) => `evopolicygym compare ${shellWord(names[0])} ${shellWord(name)}${paths}${shipped}`);
}

// A pair is known by its runs in the order of their ids; turned round, what it tells changes its sign.
async function differenceOf(first, other) {
  const isTurned = other < first;
  const pair = await load(`compare/${[first, other].sort().map(encodeURIComponent).join("/")}`).catch((error) => ({ why: error.message, difference: null }));
  if (!pair.difference) return { mean: null, why: pair.why };
  const { mean, interval } = pair.difference; // the first by id less the second
  return isTurned ? { mean, interval } : { mean: -mean, interval: interval && [-interval[1], -interval[0]] };
}

function differenceCell({ run, pair }, first) {
  if (run === first) return h("span", { class: "soft" }, "the first");
  if (finite(pair?.mean) === null) return h("span", { class: "soft", title: pair?.why ?? (run.task === first.task ? "" : "Of another task") }, "–");
  return [link(`#/compare/${[first.id, run.id].sort().join("/")}`, number(pair.mean, undefined, errorOf(pair))), withInterval(pair, true)];
}

function withInterval(score, isBare) {
  if (!score) return "–";
  if (isBare) return score.interval ? h("span", { class: "soft" }, ` (${number(score.interval[0], undefined, errorOf(score))} to ${number(score.interval[1], undefined, errorOf(score))})`) : null;
  return [measured(score), score.interval ? h("span", { class: "soft" }, ` (${endsOf(score)})`) : null];
}

async function overlaid(runs, look) {
  const names = [...new Set(runs.map((run) => run.task))].sort();
  const tasks = await Promise.all(names.slice(0, MOST_TASKS).map((task) => load(`task/${encodeURIComponent(task)}`).catch(() => null)));
  const chosen = new Set(runs.map((run) => run.id));
  const charts = tasks.filter(Boolean).map((task) => {
    let room = MOST_CURVES;
    const own = task.entries.map((group) => ({ ...group, runs: group.runs.filter((run) => chosen.has(run.id)) })).filter((group) => group.runs.length);
    const drawn = own.map((group) => {
      const few = group.runs.slice(0, room);
      room -= few.length;
      return { ...group, runs: few };
    }).filter((group) => group.runs.length);
    const total = own.reduce((sum, group) => sum + group.runs.length, 0);
    return h("div", null, h("h3", null, named(task.task)), total > MOST_CURVES ? h("p", { class: "note toomany" }, `${count(total)} runs are too many for one drawing; these are ${MOST_CURVES} of them.`) : null, curves({ ...task, entries: drawn }, look));
  });
  if (!charts.length) return null;
  return section("Learning curves", `Best mean validation return so far.${names.length > MOST_TASKS ? ` The first ${MOST_TASKS} of ${names.length} tasks.` : ""}`, h("div", { class: "small-multiples" }, charts));
}
