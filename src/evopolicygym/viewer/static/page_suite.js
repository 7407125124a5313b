// The suite: a leaderboard with its intervals for each group of runs that may be compared, and all runs.

import { h, s, put, link, named, table, number, measured, count, short, money, percent, plural, endsOf, section, nothing, finite } from "./dom.js";
import { audited, conductColumn, conductLines } from "./audit.js";
import { load, follow } from "./data.js";
import { chart, intervalBar, logTicks, mark, tell, scale } from "./chart.js";
import { runFilters } from "./filters.js";
import { compareEntries, entryAddress, runColumns } from "./page_entry.js";
import { readdress } from "./memory.js";
import { region } from "./region.js";

export async function suitePage({ asked, settings, look }) {
  const state = {
    tables: asked.has("tables") ? asked.get("tables").split(",") : settings.tables ?? [],
    filter: asked.get("filter") ?? "",
    sort: asked.get("sort") ? { name: asked.get("sort"), down: asked.get("down") !== "0" } : null,
  };
  let listed = await load("runs");
  let suite = null;
  let audit = null; // what was found in runs; it comes after the rest
  let trouble = "";
  let ended = false;
  let wanted = ""; // the leaderboard that is to be shown, when switches are faster than it
  const counted = region(([runs, tasks, live]) => [`${plural(runs, "run")} on ${plural(tasks, "task")}`, live ? `, ${live} not finished` : ""], { class: "lead" });
  const board = region(([found, why, , conducts]) => (why ? h("p", { class: "trouble", role: "alert" }, why) : found ? leaderboardsParts(found, state, address, look, conducts)
    : h("p", { class: "loading", role: "status" }, "The leaderboard and its intervals are being made …")), { class: "board" });
  const runs = region(([found, filter, problems]) => runList(found, filter, problems));
  const filters = runFilters(asked, (isCleared) => {
    if (isCleared) search.value = state.filter = "";
    address();
    draw();
  });
  const search = h("input", { type: "search", placeholder: "Filter entries, tasks, families", "aria-label": "Filter", input: () => { state.filter = search.value; address(); draw(); } });
  search.value = state.filter;
  const switches = switchesOf(settings).map((one) => {
    const box = h("input", { type: "checkbox", change: () => { state.tables = chosen(); address(); fetchBoard(); } });
    box.checked = one.names.every((name) => state.tables.includes(name));
    return { ...one, box };
  });
  const chosen = () => switches.filter((one) => one.box.checked).flatMap((one) => one.names);
  state.tables = chosen();

  function address() {
    const kept = new URLSearchParams();
    if (state.filter) kept.set("filter", state.filter);
    for (const [name, value] of filters.chosen) kept.set(name, value);
    if (state.tables.join() !== (settings.tables ?? []).join()) kept.set("tables", state.tables.join());
    if (state.sort) { kept.set("sort", state.sort.name); kept.set("down", state.sort.down ? "1" : "0"); }
    readdress(`#/${kept.size ? `?${kept}` : ""}`);
  }

  async function fetchBoard() {
    const name = ["suite", ...(state.tables.length ? [state.tables.join()] : [])].join("/");
    wanted = name;
    try {
      const found = await load(name);
      if (name !== wanted) return;
      [suite, trouble] = [found, ""];
      audited().then((conducts) => { if (!ended) { audit = conducts; draw(); } });
    } catch (error) {
      if (name !== wanted) return;
      trouble = error.message;
    }
    draw();
  }

  function draw() {
    counted.show([listed.runs.length, listed.tasks.length, listed.runs.filter((run) => run.stage !== "finished").length]);
    board.show([suite, trouble, state.filter, audit]);
    const searched = listed.runs.filter((run) => matches(state.filter, run.agent, run.task, run.family, run.stage, run.directory, run.experiment ?? "", run.name ?? "", run.note ?? "", ...(run.tags ?? [])));
    const left = filters.show(searched, Boolean(state.filter));
    for (const id of tickedRuns) if (!listed.runs.some((run) => run.id === id)) tickedRuns.delete(id);
    runs.show([left, listed.runs.length, listed.problems]);
  }

  draw();
  const stop = follow("pulse", async () => { listed = await load("runs"); await fetchBoard(); });
  const element = h("div", null,
    h("div", { class: "head" }, h("div", null, h("h1", null, "Leaderboard"), counted.element, settings.report?.length ? h("p", null, link("#/report", "Figures and tables of these runs")) : null),
      h("div", { class: "controls" }, search, switches.length ? h("div", { class: "switches", role: "group", "aria-label": "Shipped tables" }, h("span", { class: "soft" }, "tables:"), switches.map(({ names, source, box }) => h("label", { class: "switch", title: source }, box, names.join(", ")))) : null)),
    board.element, section("Runs", null, filters.element, runs.element));
  return {
    title: "Leaderboard", element, crumbs: [], ready: fetchBoard,
    keys: (event) => {
      if (event.key !== "c") return false;
      filters.clear();
      return true;
    },
    end: () => { ended = true; stop(); },
  };
}

// A switch for each shipped table; pages on a disk have the leaderboards with all of theirs, and without.
function switchesOf({ shipped = [], together }) {
  if (!together) return shipped.map(({ name, source }) => ({ names: [name], source }));
  return shipped.length ? [{ names: shipped.map(({ name }) => name), source: shipped.map(({ source }) => source).join("; ") }] : [];
}

function matches(filter, ...texts) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const text = texts.join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function leaderboardsParts({ groups }, state, address, look, audit) {
  if (!groups.some((group) => group.entries.length)) {
    return [nothing("No run is finished yet, so there is no leaderboard.", "Play one, ", h("code", null, "evopolicygym run acrobot"), ", or switch a shipped table on.")];
  }
  const all = new Set(groups.flatMap((group) => group.entries.map((entry) => entry.entry)));
  for (const name of tickedEntries) if (!all.has(name)) tickedEntries.delete(name);
  const ticks = choice(tickedEntries, { name: (e) => (e.kind === "anchor" ? null : e.entry), label: (e) => `Tick ${e.entry} to compare`, address: (names) => compareEntries(...names) });
  return [h("p", { class: "comparison" }, ticks.compare),
    groups.length > 1 ? h("p", { class: "note" }, `These runs may not all be compared: ${plural(groups.length, "group")}, each with a leaderboard of its own.`) : null,
    groups.map((group) => [group.title ? h("h2", { class: "group" }, group.title) : null, leaderboardParts(group, state, address, look, audit, ticks.column)])];
}

// What a table of a group is called, which has it alone or together with others.
export const captionOf = (what, { title }) => (title ? `${what}, ${title}` : what);

function leaderboardParts(suite, state, address, look, audit, boxes) {
  const families = [...new Set(suite.tasks.map((task) => task.family))];
  const entries = suite.entries.filter((entry) => matches(state.filter, entry.entry, entry.kind, ...Object.keys(entry.tasks), ...families.filter((f) => Object.hasOwn(entry.families, f))));
  const finiteValue = (score) => score && finite(score.value);
  const drawn = entries.filter((entry) => entry.kind !== "anchor");
  const [low, high] = reach(drawn.map((entry) => entry.rank_score), [0, 1]);
  const columns = [
    boxes,
    { name: "#", title: "Rank by mean rank score", value: (e) => e.rank, cell: (e) => e.rank ?? h("span", { class: "soft", title: "It lacks tasks, or has no score" }, "–"), down: false },
    { name: "tier", spare: true, title: "Entries of a tier can’t be distinguished from its best; below two repeats on each task there is none", value: (e) => e.tier, cell: (e) => (e.tier ? h("span", { class: `tier tier-${Math.min(e.tier, 4)}` }, e.tier) : "–"), down: false },
    { name: "entry", text: true, value: (e) => e.entry, cell: (e) => [e.kind === "anchor" ? named(e.entry) : link(entryAddress(e.entry), named(e.entry)), e.source && e.source !== "anchor" ? h("span", { class: "tag", title: `From a table that ships: ${e.source}` }, e.ours ? "shipped, ours" : "shipped") : e.kind === "anchor" ? h("span", { class: "tag" }, "anchor") : null] },
    { name: "rank score", title: "Mean over tasks of (N − rank) / (N − 1), with its 95 % interval", value: (e) => finiteValue(e.rank_score), cell: (e) => e.rank_score === null ? h("span", { class: "soft", title: "None of its runs has a score" }, "–") : h("span", { class: "withbar" }, intervalBar(e.rank_score.value, e.rank_score.interval, [low, high], interval(e.rank_score, e.intervals_cover)), measured(e.rank_score)) },
    conductColumn(audit),
    { name: "normalised", title: "Mean over tasks of (mean − random) / (best − random)", value: (e) => finiteValue(e.normalised), cell: (e) => measured(e.normalised) },
    { name: "records", title: "How far the records of its runs are to be believed on this machine", text: true, value: (e) => Object.keys(e.records).join(), cell: (e) => Object.entries(e.records).map(([state, n], at, all) => (all.length > 1 ? `${n} ${state}` : state)).join(", ") || "–" },
    { name: "tasks", title: "How many tasks of the table it has", value: (e) => e.coverage.tasks, cell: (e) => (e.coverage.tasks === e.coverage.of ? e.coverage.tasks : `${e.coverage.tasks} / ${e.coverage.of}`) },
    { name: "wins", title: "Tasks on which none is better", value: (e) => e.wins },
    { name: "success rate", title: "Mean over the tasks that know success, with its 95 % interval", value: (e) => e.success_rate, cell: (e) => successRate(e) },
    { name: "tokens", title: "Of one pass over its tasks", value: (e) => e.tokens, cell: (e) => short(e.tokens) },
    { name: "cost", title: "US dollars of one pass over its tasks", value: (e) => e.cost_usd, cell: (e) => money(e.cost_usd, e.cost_is_lower_bound) },
    ...families.map((family) => ({ name: family.replaceAll("_", " "), title: `Mean rank score over ${family}`, value: (e) => finiteValue(e.families[family]), cell: (e) => measured(Object.hasOwn(e.families, family) ? e.families[family] : null) })),
  ].filter((column) => column && !["tokens", "cost", "success rate"].includes(column.name) || entries.some((e) => finite(column.value(e)) !== null));
  const parts = [];
  if (!entries.length) parts.push(nothing(`No entry matches “${state.filter}”.`, "Clear the filter to see all ", String(suite.entries.length), "."));
  else parts.push(table(columns, entries, { caption: captionOf("Leaderboard", suite), sort: state.sort, mark: (e) => (e.kind === "anchor" ? "quiet" : null), onsort: (by) => { state.sort = by; address(); } }));
  parts.push(conductLines(audit, suite.entries));
  const priced = entries.filter((entry) => entry.rank_score !== null && (finite(entry.cost_usd) !== null || finite(entry.tokens) !== null));
  parts.push(strips(suite, entries, look));
  if (priced.length > 1) parts.push(costChart(suite, priced, look));
  if (suite.notes.length) parts.push(h("ul", { class: "notes" }, suite.notes.map((note) => h("li", null, note))));
  return parts;
}

// An entry's success rate with its interval.
export function successRate({ success_rate: rate, success_interval: ends }) {
  return [percent(rate), ends ? h("span", { class: "soft" }, ` (${ends.map(percent).join(" to ")})`) : null];
}

// From the least to the most that values and their intervals have, and at least from one end to the other.
export function reach(scores, [low, high]) {
  const ends = scores.flatMap((score) => [score?.value, ...(score?.interval ?? [])]).map(finite).filter((value) => value !== null);
  return [Math.min(low, ...ends), Math.max(high, ...ends)];
}

function interval(score, covers) {
  return score.interval ? `95 % interval from ${endsOf(score)}, over other ${covers}` : "no interval: published as a mean";
}

function strips(suite, entries, look) {
  const shown = entries.filter((entry) => entry.kind !== "anchor").map((entry) => entry.entry);
  const rows = suite.tasks.filter((task) => entries.some((entry) => Object.hasOwn(entry.tasks, task.name) && entry.tasks[task.name].runs.length && entry.tasks[task.name].normalised));
  if (!rows.length) return null;
  const ends = reach(entries.filter((entry) => entry.kind !== "anchor").flatMap((entry) => rows.map((task) => (Object.hasOwn(entry.tasks, task.name) ? entry.tasks[task.name].normalised : null))), [0, 1]);
  const strip = (task) => {
    const width = 420;
    const x = scale(ends, [10, width - 10]);
    const marks = [s("line", { x1: 10, x2: width - 10, y1: 12, y2: 12, class: "grid" }), [0, 1].map((at) => s("line", { x1: x(at), x2: x(at), y1: 7, y2: 17, class: "grid" }))];
    const standings = [];
    entries.forEach((entry) => {
      const cell = Object.hasOwn(entry.tasks, task.name) ? entry.tasks[task.name] : null;
      if (!cell?.normalised || entry.kind === "anchor") return;
      const own = look(entry.entry);
      const group = s("g", { class: `c${own.colour}` });
      if (cell.normalised.interval) group.append(s("line", { x1: x(cell.normalised.interval[0]), x2: x(cell.normalised.interval[1]), y1: 12, y2: 12, class: "whisker own" }));
      group.append(mark(own.shape, x(cell.normalised.value), 12, 4.5, { class: cell.runs.length ? "dot" : "dot open" }));
      standings.push(`${entry.entry} ${measured(cell.normalised)}, rank ${cell.rank}`);
      marks.push(tell(group, [entry.entry, `mean return ${number(cell.mean, undefined, cell.standard_error)}${cell.standard_error === null ? "" : ` ± ${number(cell.standard_error, undefined, cell.standard_error)}`}`, `normalised ${measured(cell.normalised)}, rank ${cell.rank} of ${cell.of}`]));
    });
    return s("svg", { viewBox: `0 0 ${width} 24`, class: "strip", role: "img", "aria-label": `Normalised scores on ${task.name}: ${standings.join("; ")}` }, marks);
  };
  return section("Task by task", "Normalised score: 0 is uniform random, 1 the best agent of the table, each with a tick. Bars are 95 % intervals.",
    h("div", { class: "strips" }, rows.map((task) => [link(`#/task/${encodeURIComponent(task.name)}`, named(task.name)), h("span", { class: "soft" }, task.family), strip(task)])),
    h("ul", { class: "legend" }, shown.map((name) => h("li", null, s("svg", { width: 16, height: 14, class: `c${look(name).colour}`, "aria-hidden": "true" }, mark(look(name).shape, 8, 7, 4.5, { class: "dot" })), named(name)))));
}

function costChart(suite, entries, look) {
  const dollars = entries.every((entry) => finite(entry.cost_usd) !== null);
  const spent = (entry) => (dollars ? entry.cost_usd : entry.tokens);
  const known = entries.filter((entry) => spent(entry) > 0);
  if (known.length < 2) return null;
  const [least, most] = [Math.min(...known.map(spent)), Math.max(...known.map(spent))];
  const room = least === most ? 3 : 1.25; // so that no mark stands on an edge
  const [low, high] = [least / room, most * room];
  const bounds = reach(known.map((entry) => entry.rank_score), [0, 1]);
  return section("Cost against score", `${dollars ? "US dollars" : "Tokens"} of one pass over an entry’s tasks, on a logarithmic scale.`,
    chart({ label: captionOf("Cost against rank score", suite), height: 260, x: { domain: [Math.log10(low), Math.log10(high)], title: dollars ? "cost" : "tokens", ticks: logTicks(low, high, dollars ? plainMoney : short) }, y: { domain: bounds, title: "mean rank score" },
      rows: () => [["entry", dollars ? "cost" : "tokens", "rank score", "low", "high"], ...known.map((entry) => [entry.entry, spent(entry), entry.rank_score.value, ...(entry.rank_score.interval ?? [null, null])])],
      draw: (frame) => known.map((entry) => {
        const own = look(entry.entry);
        const x = frame.x(Math.log10(spent(entry)));
        const parts = [mark(own.shape, x, frame.y(entry.rank_score.value), 5.5, { class: "dot" })];
        if (entry.rank_score.interval) parts.unshift(s("line", { x1: x, x2: x, y1: frame.y(entry.rank_score.interval[0]), y2: frame.y(entry.rank_score.interval[1]), class: "whisker own" }));
        return tell(s("g", { class: `c${own.colour}` }, parts), [entry.entry, dollars ? money(entry.cost_usd, entry.cost_is_lower_bound) : `${short(entry.tokens)} tokens`, `rank score ${measured(entry.rank_score)}`]);
      }) }));
}

// Dollars at a tick: 0.01, 0.5, 20.
function plainMoney(value) {
  return `$${value.toLocaleString("en", { maximumSignificantDigits: 1 })}`;
}

const MOST_ROWS = 200;
const STAGES = { open: "open", closed: "validation", selected: "held-out" };
// Ids of runs and names of entries that are ticked; they stay so when the page is drawn anew.
const tickedRuns = new Set();
const tickedEntries = new Set();

// A column of boxes, and a link to the comparison of the rows that are ticked; a row without a name has no box.
function choice(ticked, { name, label, address }) {
  const compare = h("a", { class: "button" });
  const follow = () => {
    compare.hidden = ticked.size < 2;
    put(compare, ticked.size === 2 ? "Compare the two" : `Compare the ${count(ticked.size)}`);
    compare.setAttribute("href", address([...ticked]));
  };
  const cell = (row) => {
    const own = name(row);
    if (own === null) return null;
    const box = h("input", { type: "checkbox", "aria-label": label(row), change: () => {
      if (box.checked) ticked.add(own);
      else ticked.delete(own);
      follow();
    } });
    box.checked = ticked.has(own);
    return box;
  };
  follow();
  return { compare, column: { name: "⇄", title: "Choose two or more to compare", value: () => 0, cell } };
}

function runList(found, all, problems) {
  const { compare, column } = choice(tickedRuns, { name: (run) => run.id, label: (run) => `Choose ${run.agent} on ${run.task} to compare`, address: (ids) => `#/compare/${ids.sort().join("/")}` });
  return [h("p", { class: "compare" }, compare),
    found.length ? table([column, ...runColumns(found)], found, { caption: "Runs", most: MOST_ROWS }) : nothing(all ? "No run matches these filters." : "There are no runs here yet.", "Play one: ", h("code", null, "evopolicygym run acrobot")),
    problems.length ? h("details", { class: "warning" }, h("summary", null, `${count(problems.length)} can’t be read`), h("ul", null, problems.map((problem) => h("li", null, h("code", null, problem.directory), ` ${problem.reason}`)))) : null];
}

const ENDS = { agent: "agent ended", finish: "asked to end", submissions: "all submissions", crash: "crashed", hang: "hung", context: "context full" };
// Ends that are failures of the agent.
export const FAULTS = new Set(["crash", "hang", "context"]);

// Where a run stands, and how it ended if not by its budget; one that no process plays is not being played, whatever its
// record says last.
export function stateOf(run) {
  if (run.stage === "finished") {
    const by = run.ended_by, { what, why } = run.ended ?? {};
    return [run.status === "scored" ? "scored" : h("span", { class: "tag first" }, "nothing to score"),
      by && by !== "budget" ? h("span", { class: FAULTS.has(by) ? "tag bad" : "tag", title: [what, why].filter(Boolean).join(" ") }, ENDS[by] ?? by.replaceAll("_", " ")) : null];
  }
  if (!run.is_played) return h("span", { class: "tag bad first" }, "interrupted");
  return h("span", { class: "tag live" }, STAGES[run.stage] ?? run.stage);
}
