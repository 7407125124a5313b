// An entry: its scores task by task, its learning curves, what its runs spent, and how its edits went.

import { h, link, named, table, number, measured, plusMinus, count, short, money, percent, duration, moment, endsOf, section, facts, fact, finite, nothing } from "./dom.js";
import { audited, conductLines } from "./audit.js";
import { load, follow } from "./data.js";
import { intervalBar } from "./chart.js";
import { captionOf, reach, stateOf, successRate } from "./page_suite.js";
import { curves } from "./page_task.js";
import { region } from "./region.js";

const MOST_TASKS = 24; // tasks whose curves are drawn
const MOST_RUNS = 48; // runs whose edits are counted
const SHARES = [0.5, 0.9, 1];

export const entryAddress = (name) => `#/entry/${encodeURIComponent(name)}`;
export const experimentAddress = (id) => `#/experiment/${encodeURIComponent(id)}`;
export const tagAddress = (tag) => `#/?${new URLSearchParams({ tag })}`;
export const compareEntries = (...names) => `#/compare?${new URLSearchParams(names.map((name) => ["entry", name]))}`;

// The leaderboards, a group each, that have any of these entries: with the shipped tables that pages begin with, else with
// all that ship; none where there is none.
export async function leaderboardsOf(names, settings) {
  const read = async (shipped) => {
    const { groups } = await load(["suite", ...(shipped.length ? [shipped.join()] : [])].join("/")).catch(() => ({ groups: [] }));
    return { all: groups, own: groups.filter((group) => group.entries.some((entry) => names.includes(entry.entry))) };
  };
  const found = await read(settings.beside ?? []);
  const known = new Set(found.own.flatMap((group) => group.entries.map((entry) => entry.entry)));
  return names.every((name) => known.has(name)) ? found : read((settings.shipped ?? []).map((table) => table.name));
}

// An entry, and its group where there are several.
export function groupedName({ entry, group }) {
  return group === null ? `${entry}, not finished` : group ? `${entry}, ${group}` : entry;
}

export async function entryPage({ words: [name = ""], settings, look }) {
  const read = async () => {
    const { runs } = await load("runs");
    const own = runs.filter((run) => run.agent === name);
    const boards = own.length && !own.some((run) => run.stage === "finished") ? { all: [], own: [] } : await leaderboardsOf([name], settings);
    const tasks = await Promise.all([...new Set(own.map((run) => run.task))].sort().slice(0, MOST_TASKS).map((task) => load(`task/${encodeURIComponent(task)}`).catch(() => null)));
    return { own, boards, tasks: tasks.filter(Boolean) };
  };
  let found = await read();
  if (!found.own.length && !found.boards.own.length) throw new Error(`There is no entry “${name}” here.`);
  const content = region((data) => parts(name, data, look));
  const edits = region((summary) => editsOf(summary));
  const conduct = region(([audit, entries]) => (audit ? conductLines(audit, entries) : null));
  const draw = async () => {
    content.show(found);
    const finished = found.own.filter((run) => run.stage === "finished").map((run) => run.id);
    audited().then((audit) => conduct.show([audit, [{ entry: name, tasks: { all: { runs: finished } } }]]));
    const runs = found.own.slice(0, MOST_RUNS);
    const all = await Promise.all(runs.map((run) => load(`run/${run.id}/edits`).catch(() => ({ edits: [] }))));
    edits.show({ edits: all.flatMap((document) => document.edits), runs: runs.length, of: found.own.length });
  };
  return {
    title: name, element: h("div", null, content.element, conduct.element, edits.element), crumbs: [[null, name]], ready: draw,
    end: follow("pulse", async () => { found = await read(); await draw(); }),
  };
}

function parts(name, { own, boards, tasks }, look) {
  const entry = boards.own[0]?.entries.find((row) => row.entry === name);
  const others = new Set(boards.own.flatMap((board) => board.entries).filter((row) => row.entry !== name && row.kind !== "anchor").map((row) => row.entry));
  const sum = (key) => (own.some((run) => finite(run[key]) !== null) ? own.reduce((total, run) => total + (finite(run[key]) ?? 0), 0) : null);
  const took = own.filter((run) => run.finished_at).reduce((total, run) => total + (new Date(run.finished_at) - new Date(run.opened_at)) / 1000, 0);
  const played = new Set(own.map((run) => run.task)).size;
  const lead = own.length ? `${count(own.length)} ${own.length === 1 ? "run" : "runs"} on ${count(played)} ${played === 1 ? "task" : "tasks"}` : "From a table that ships: no run of it is here.";
  return [
    h("div", { class: "head" }, h("div", null, h("h1", null, named(name)), h("p", { class: "lead" }, lead))),
    facts(
      entry?.agent_kind ? fact("agent", entry.agent_kind) : null, entry?.model ? fact("model", entry.model) : null, entry?.effort ? fact("effort", entry.effort) : null,
      fact("episodes", count(sum("spent"))), fact("submissions", count(sum("submissions"))),
      sum("tokens") === null ? null : fact("tokens", short(sum("tokens"))), sum("cost_usd") === null ? null : fact("cost", new Set(own.filter((r) => finite(r.cost_usd) !== null).map(({ price }) => price && JSON.stringify([price.rates, price.tiers, price.currency]))).size > 1 ? "–, at several prices" : money(sum("cost_usd"), own.some((r) => r.cost_is_lower_bound))),
      took ? fact("time", duration(took)) : null),
    boards.own.length ? boards.own.map((board) => standing(board, name, boards.all.length > 1)) : nothing("It has no place on the leaderboard.", "None of its runs is finished."),
    others.size ? section("Compare with", null, h("ul", { class: "chips" }, [...others].map((other) => h("li", null, link(compareEntries(name, other), named(other)))))) : null,
    ...drawings(name, tasks, own, look),
    own.length ? section("Runs", null, table(runColumns(own, ["agent"]), own, { caption: "Runs", most: 200 })) : null,
  ];
}

// Where an entry stands among the runs of a group, and its scores there.
function standing(board, name, isOneOfSeveral) {
  const entry = board.entries.find((row) => row.entry === name);
  return section(isOneOfSeveral ? board.title : "Scores by task", "Mean held-out return over runs; normalised: 0 is uniform random, 1 the best of the table. Intervals are 95 %.",
    facts(
      entry.rank ? fact("rank", entry.rank) : null, entry.tier ? fact("tier", entry.tier) : null,
      entry.rank_score ? fact("rank score", measured(entry.rank_score), ends(entry.rank_score)) : null,
      entry.normalised ? fact("normalised", measured(entry.normalised), ends(entry.normalised)) : null,
      finite(entry.success_rate) === null ? null : fact("success rate", ...successRate(entry))),
    scores(entry, board));
}

function ends(score) {
  return score.interval ? h("span", { class: "soft" }, ` (${endsOf(score)})`) : null;
}

function scores(entry, board) {
  const rows = board.tasks.filter((task) => Object.hasOwn(entry.tasks, task.name)).map((task) => {
    const rivals = board.entries.filter((row) => row.entry !== entry.entry && row.kind !== "anchor" && Object.hasOwn(row.tasks, task.name) && finite(row.tasks[task.name].mean) !== null);
    const best = rivals.sort((a, b) => b.tasks[task.name].mean - a.tasks[task.name].mean)[0];
    return { task, own: entry.tasks[task.name], best, rival: best?.tasks[task.name] };
  });
  const bounds = reach(rows.map((row) => row.own.normalised), [0, 1]);
  return table([
    { name: "task", text: true, value: (r) => r.task.name, cell: (r) => link(`#/task/${encodeURIComponent(r.task.name)}`, named(r.task.name)) },
    { name: "mean ± s.e.", value: (r) => finite(r.own.mean), cell: (r) => (finite(r.own.mean) === null ? "–" : plusMinus(r.own.mean, r.own.standard_error)) },
    { name: "normalised", value: (r) => finite(r.own.normalised?.value), cell: (r) => (r.own.normalised ? h("span", { class: "withbar" }, intervalBar(r.own.normalised.value, r.own.normalised.interval, bounds, `normalised ${measured(r.own.normalised)}`), measured(r.own.normalised)) : "–") },
    { name: "rank", value: (r) => r.own.rank, cell: (r) => (r.own.rank ? `${r.own.rank} of ${r.own.of}` : "–"), down: false },
    { name: "runs", value: (r) => r.own.runs.length },
    { name: "best other", text: true, value: (r) => r.best?.entry, cell: (r) => (r.best ? link(entryAddress(r.best.entry), named(r.best.entry)) : "–") },
    { name: "its mean ± s.e.", value: (r) => finite(r.rival?.mean), cell: (r) => (r.rival ? plusMinus(r.rival.mean, r.rival.standard_error) : "–") },
  ], rows, { caption: captionOf("Scores by task", board) });
}

function drawings(name, tasks, own, look) {
  const mine = tasks.map((task) => ({ ...task, entries: task.entries.filter((group) => group.entry === name) })).filter((task) => task.entries.some((group) => group.runs.some((run) => run.curve.length)));
  if (!mine.length) return [];
  const all = new Set(own.map((run) => run.task)).size;
  const rows = mine.flatMap((task) => task.entries.flatMap((group) => group.runs).filter((run) => run.curve.length).map((run) => ({ run, reached: SHARES.map((share) => reachedAt(run, task.random_anchor?.mean, share)) })));
  return [
    section("Learning curves", `Best mean validation return so far, against train episodes spent; where a task has several runs, a thick line is their mean, with a band of its standard error.${all > MOST_TASKS ? ` The first ${MOST_TASKS} of ${all} tasks.` : ""}`,
      h("div", { class: "small-multiples" }, mine.map((task) => h("div", null, h("h3", null, link(`#/task/${encodeURIComponent(task.task)}`, named(task.task))), curves(task, look))))),
    section("Efficiency", "Train episodes until a run’s best validation mean had gained so much of what it gained in the end over uniform random; without that anchor, over its first checkpoint.",
      table([
        { name: "task", text: true, value: (r) => r.run.task, cell: (r) => named(r.run.task) },
        { name: "seed", value: (r) => r.run.seed, cell: (r) => link(`#/run/${r.run.id}`, r.run.seed) },
        ...SHARES.map((share, place) => ({ name: percent(share), title: `Episodes to ${percent(share)} of the gain`, value: (r) => r.reached[place], down: false })),
        { name: "budget", value: (r) => r.run.budget },
      ], rows, { caption: "Efficiency", most: 100 })),
  ];
}

// After how many episodes a curve had made this share of its whole gain; null where it gained nothing.
function reachedAt(run, random, share) {
  const from = finite(random) ?? run.curve[0][1], to = run.curve.at(-1)[1];
  if (!(to > from)) return null;
  return run.curve.find(([, value]) => value >= to || value - from >= share * (to - from))[0];
}

function editsOf({ edits, runs, of }) {
  const kinds = [...new Set(edits.map((edit) => edit.edit_kind).filter(Boolean))].sort();
  if (!kinds.length) return null;
  const rows = kinds.map((kind) => {
    const own = edits.filter((edit) => edit.edit_kind === kind);
    const gains = own.map((edit) => finite(edit.paired_gain)).filter((gain) => gain !== null);
    return { kind, own, gains, hits: own.filter((edit) => edit.is_hit).length };
  });
  return section("Edits", `What its submissions changed, and whether that was a gain beyond noise on the same validation cases.${runs < of ? ` Of ${runs} of ${of} runs.` : ""}`, table([
    { name: "edit", text: true, value: (r) => r.kind },
    { name: "submissions", value: (r) => r.own.length },
    { name: "with a gain known", value: (r) => r.gains.length },
    { name: "gained", title: "Gain above zero", value: (r) => r.gains.filter((gain) => gain > 0).length },
    { name: "beyond noise", value: (r) => r.hits },
    { name: "share beyond noise", value: (r) => (r.gains.length ? r.hits / r.gains.length : null), cell: (r) => (r.gains.length ? percent(r.hits / r.gains.length) : "–") },
  ], rows, { caption: "Edits" }));
}

// The columns of tables of runs, with links to all that a run belongs to; those that no run has a value of are left out.
export function runColumns(runs, without = []) {
  return [
    { name: "run", text: true, value: (r) => runName(r), cell: (r) => [h("a", { href: `#/run/${r.id}`, title: [r.directory, r.note].filter(Boolean).join("\n") }, h("span", { class: "name" }, runName(r))), r.tags ? h("div", { class: "tags" }, r.tags.map((tag) => h("a", { class: "tag", href: tagAddress(tag) }, tag))) : null] },
    { name: "score ± s.e.", title: "Mean held-out return ± its standard error", value: (r) => finite(r.score), cell: (r) => (r.score === null ? "–" : plusMinus(r.score, r.score_standard_error)) },
    { name: "state", title: "Where it stands, and how it ended", text: true, value: (r) => `${r.stage} ${r.ended_by ?? ""}`, cell: stateOf },
    { name: "task", text: true, value: (r) => r.task, cell: (r) => link(`#/task/${encodeURIComponent(r.task)}`, named(r.task)) },
    { name: "agent", text: true, value: (r) => r.agent, cell: (r) => link(entryAddress(r.agent), named(r.agent)) },
    { name: "group", title: "Only runs of one group may be compared", text: true, value: (r) => r.group, cell: (r) => (r.group === null ? h("span", { class: "soft" }, "not finished") : named(r.group || "–")) },
    { name: "seed", value: (r) => r.seed },
    { name: "submissions", value: (r) => r.submissions },
    { name: "episodes", title: "Spent of the budget", value: (r) => r.spent, cell: (r) => `${r.spent} / ${r.budget}` },
    { name: "cost", title: "US dollars", value: (r) => r.cost_usd, cell: (r) => money(r.cost_usd, r.cost_is_lower_bound) },
    { name: "experiment", text: true, value: (r) => r.experiment, cell: (r) => (r.experiment_id ? link(experimentAddress(r.experiment_id), named(experimentName(r))) : "–") },
    { name: "record", title: "How far the record is to be believed on this machine", text: true, value: (r) => r.record, cell: (r) => h("span", { title: r.unchecked }, r.record) },
    { name: "began", text: true, value: (r) => r.opened_at, cell: (r) => h("span", { class: "soft" }, moment(r.opened_at)) },
  ].filter(({ name }) => !without.includes(name) && (name !== "cost" || runs.some((r) => finite(r.cost_usd) !== null)) && (name !== "group" || runs.some((r) => r.group)) && (name !== "experiment" || runs.some((r) => r.experiment_id)));
}

// What a run's experiment is called: by its name, else by the beginning of its identity.
export function experimentName({ experiment, experiment_id: id }) {
  return experiment === id ? id.slice(0, 12) : experiment;
}

// What a run is called: as it was labelled, else as its directory is.
function runName(run) {
  return run.name || run.directory.split("/").at(-1) || run.id;
}
