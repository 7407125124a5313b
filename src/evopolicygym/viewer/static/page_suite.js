// The suite: the leaderboard with its intervals, and all runs.

import { h, s, put, link, named, table, number, measured, count, short, money, percent, errorOf, section, nothing, finite } from "./dom.js";
import { load, follow } from "./data.js";
import { chart, intervalBar, mark, tell, scale } from "./chart.js";
import { runFilters } from "./filters.js";
import { compareEntries, entryAddress, runColumns } from "./page_entry.js";
import { readdress } from "./memory.js";
import { region } from "./region.js";

export async function suitePage({ asked, settings, look }) {
  const state = {
    beside: asked.has("with") ? asked.get("with").split(",") : settings.beside ?? [],
    filter: asked.get("filter") ?? "",
    sort: asked.get("sort") ? { name: asked.get("sort"), down: asked.get("down") !== "0" } : null,
  };
  let listed = await load("runs");
  let suite = null;
  let trouble = "";
  let wanted = ""; // the leaderboard that is to be shown, when switches are faster than it
  const counted = region(([runs, tasks, live]) => [`${plural(runs, "run")} on ${plural(tasks, "task")}`, live ? `, ${live} not finished` : ""], { class: "lead" });
  const board = region(([found, why]) => (why ? h("p", { class: "trouble", role: "alert" }, why) : found ? leaderboardParts(found, state, address, look)
    : h("p", { class: "loading", role: "status" }, "The leaderboard and its intervals are being made …")), { class: "board" });
  const runs = region(([found, filter, problems]) => runList(found, filter, problems));
  const filters = runFilters(asked, (isCleared) => {
    if (isCleared) search.value = state.filter = "";
    address();
    draw();
  });
  const search = h("input", { type: "search", placeholder: "Filter entries, tasks, families", "aria-label": "Filter", input: () => { state.filter = search.value; address(); draw(); } });
  search.value = state.filter;
  const shipped = (settings.shipped ?? []).map((table) => {
    const box = h("input", { type: "checkbox", change: () => { state.beside = shipped.filter((one) => one.box.checked).map((one) => one.name); address(); fetchBoard(); } });
    box.checked = state.beside.includes(table.name);
    return { ...table, box };
  });
  state.beside = shipped.filter((one) => one.box.checked).map((one) => one.name);

  function address() {
    const kept = new URLSearchParams();
    if (state.filter) kept.set("filter", state.filter);
    for (const [name, value] of filters.chosen) kept.set(name, value);
    if (state.beside.join() !== (settings.beside ?? []).join()) kept.set("with", state.beside.join());
    if (state.sort) { kept.set("sort", state.sort.name); kept.set("down", state.sort.down ? "1" : "0"); }
    readdress(`#/${kept.size ? `?${kept}` : ""}`);
  }

  async function fetchBoard() {
    const name = ["suite", ...(state.beside.length ? [state.beside.join()] : [])].join("/");
    wanted = name;
    try {
      const found = await load(name);
      if (name !== wanted) return;
      [suite, trouble] = [found, ""];
    } catch (error) {
      if (name !== wanted) return;
      trouble = error.message;
    }
    draw();
  }

  function draw() {
    counted.show([listed.runs.length, listed.tasks.length, listed.runs.filter((run) => run.stage !== "finished").length]);
    board.show([suite, trouble, state.filter]);
    const searched = listed.runs.filter((run) => matches(state.filter, run.entry, run.task, run.family, run.stage, run.place, run.experiment_name, run.name ?? "", run.note ?? "", ...(run.tags ?? [])));
    const left = filters.show(searched, Boolean(state.filter));
    for (const id of tickedRuns) if (!listed.runs.some((run) => run.id === id)) tickedRuns.delete(id);
    runs.show([left, listed.runs.length, listed.problems]);
  }

  draw();
  const element = h("div", null,
    h("div", { class: "head" }, h("div", null, h("h1", null, "Leaderboard"), counted.element, settings.report?.length ? h("p", null, link("#/report", "Figures and tables of these runs")) : null),
      h("div", { class: "controls" }, search, shipped.length ? h("div", { class: "switches", role: "group", "aria-label": "Shipped tables" }, h("span", { class: "soft" }, "beside:"), shipped.map(({ name, source, box }) => h("label", { class: "switch", title: source }, box, name))) : null)),
    board.element, section("Runs", null, filters.element, runs.element));
  return {
    title: "Leaderboard", element, crumbs: [], ready: fetchBoard,
    keys: (event) => {
      if (event.key !== "c") return false;
      filters.clear();
      return true;
    },
    end: follow("pulse", async () => { listed = await load("runs"); await fetchBoard(); }),
  };
}

function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

function matches(filter, ...texts) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const text = texts.join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function leaderboardParts(suite, state, address, look) {
  if (!suite.entries.length) {
    return [nothing("No run is finished yet, so there is no leaderboard.", "Play one, ", h("code", null, "evopolicygym run acrobot"), ", or switch a shipped table on.")];
  }
  const families = [...new Set(suite.tasks.map((task) => task.family))];
  const entries = suite.entries.filter((entry) => matches(state.filter, entry.entry, entry.kind, ...Object.keys(entry.tasks), ...families.filter((f) => Object.hasOwn(entry.families, f))));
  const finiteValue = (score) => score && finite(score.value);
  const { compare, column: boxes } = choice(tickedEntries, { name: (e) => (e.kind === "anchor" ? null : e.entry), label: (e) => `Tick ${e.entry} to compare`, address: (names) => compareEntries(...names) });
  const columns = [
    boxes,
    { name: "#", title: "Place by mean rank score", value: (e) => e.place, cell: (e) => e.place ?? h("span", { class: "soft", title: "It lacks tasks, or has no score" }, "–"), down: false },
    { name: "tier", title: "Entries of a tier can’t be distinguished from its best; below two repeats on each task there is none", value: (e) => e.tier, cell: (e) => (e.tier ? h("span", { class: `tier tier-${Math.min(e.tier, 4)}` }, e.tier) : "–"), down: false },
    { name: "entry", text: true, value: (e) => e.entry, cell: (e) => [e.kind === "anchor" ? named(e.entry) : link(entryAddress(e.entry), named(e.entry)), e.source && e.source !== "anchor" ? h("span", { class: "tag", title: `From a table that ships: ${e.source}` }, e.ours ? "shipped, ours" : "shipped") : e.kind === "anchor" ? h("span", { class: "tag" }, "anchor") : null] },
    { name: "rank score", title: "Mean over tasks of (N − rank) / (N − 1), with its 95 % interval", value: (e) => finiteValue(e.rank_score), cell: (e) => e.rank_score === null ? h("span", { class: "soft", title: "None of its runs has a score" }, "–") : h("span", { class: "withbar" }, intervalBar(e.rank_score.value, e.rank_score.interval, [0, 1], interval(e.rank_score, e.intervals_cover)), measured(e.rank_score)) },
    { name: "normalised", title: "Mean over tasks of (mean − random) / (best − random)", value: (e) => finiteValue(e.normalised), cell: (e) => measured(e.normalised) },
    ...families.map((family) => ({ name: family.replaceAll("_", " "), title: `Mean rank score over ${family}`, value: (e) => finiteValue(e.families[family]), cell: (e) => measured(Object.hasOwn(e.families, family) ? e.families[family] : null) })),
    { name: "records", title: "How far the records of its runs are to be believed on this machine", text: true, value: (e) => Object.keys(e.records).join(), cell: (e) => Object.entries(e.records).map(([state, n], at, all) => (all.length > 1 ? `${n} ${state}` : state)).join(", ") || "–" },
    { name: "tasks", title: "How many tasks of the table it has", value: (e) => e.coverage.tasks, cell: (e) => (e.coverage.tasks === e.coverage.of ? e.coverage.tasks : `${e.coverage.tasks} / ${e.coverage.of}`) },
    { name: "wins", title: "Tasks on which none is better", value: (e) => e.wins },
    { name: "success", title: "Mean success rate over the tasks that know success", value: (e) => e.success_rate, cell: (e) => percent(e.success_rate) },
    { name: "tokens", title: "Of one pass over its tasks", value: (e) => e.tokens, cell: (e) => short(e.tokens) },
    { name: "cost", title: "US dollars of one pass over its tasks", value: (e) => e.cost_usd, cell: (e) => money(e.cost_usd, e.cost_is_lower_bound) },
  ].filter((column) => !["tokens", "cost", "success"].includes(column.name) || entries.some((e) => finite(column.value(e)) !== null));
  const parts = [h("p", { class: "comparison" }, compare)];
  if (suite.trouble) parts.push(h("details", { class: "warning" }, h("summary", null, "These runs are not comparable: compare them with care"), h("pre", null, suite.trouble)));
  if (!entries.length) parts.push(nothing(`No entry matches “${state.filter}”.`, "Clear the filter to see all ", String(suite.entries.length), "."));
  else parts.push(table(columns, entries, { caption: "Leaderboard", sort: state.sort, mark: (e) => (e.kind === "anchor" ? "quiet" : null), onsort: (by) => { state.sort = by; address(); } }));
  const priced = entries.filter((entry) => entry.rank_score !== null && (finite(entry.cost_usd) !== null || finite(entry.tokens) !== null));
  parts.push(strips(suite, entries, look));
  if (priced.length > 1) parts.push(costChart(priced, look));
  if (suite.notes.length) parts.push(h("ul", { class: "notes" }, suite.notes.map((note) => h("li", null, note))));
  return parts;
}

function interval(score, covers) {
  return score.interval ? `95 % interval from ${number(score.interval[0], undefined, errorOf(score))} to ${number(score.interval[1], undefined, errorOf(score))}, over other ${covers}` : "no interval: published as a mean";
}

function strips(suite, entries, look) {
  const shown = entries.filter((entry) => entry.kind !== "anchor").map((entry) => entry.entry);
  const rows = suite.tasks.filter((task) => entries.some((entry) => Object.hasOwn(entry.tasks, task.name) && entry.tasks[task.name].runs.length));
  if (!rows.length) return null;
  const strip = (task) => {
    const width = 420;
    const x = scale([0, 1], [10, width - 10]);
    const marks = [s("line", { x1: 10, x2: width - 10, y1: 12, y2: 12, class: "grid" })];
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
  return section("Task by task", "Normalised score: 0 is uniform random, 1 the best agent of the table. Bars are 95 % intervals.",
    h("div", { class: "strips" }, rows.map((task) => [link(`#/task/${encodeURIComponent(task.name)}`, named(task.name)), h("span", { class: "soft" }, task.family), strip(task)])),
    h("ul", { class: "legend" }, shown.map((name) => h("li", null, s("svg", { width: 16, height: 14, class: `c${look(name).colour}`, "aria-hidden": "true" }, mark(look(name).shape, 8, 7, 4.5, { class: "dot" })), named(name)))));
}

function costChart(entries, look) {
  const dollars = entries.every((entry) => finite(entry.cost_usd) !== null);
  const spent = (entry) => (dollars ? entry.cost_usd : entry.tokens);
  const known = entries.filter((entry) => spent(entry) > 0);
  if (known.length < 2) return null;
  const logs = known.map((entry) => Math.log10(spent(entry)));
  const low = Math.floor(Math.min(...logs)), high = Math.ceil(Math.max(...logs) + 1e-9);
  const powers = Array.from({ length: high - low + 1 }, (_, place) => low + place);
  return section("Cost against score", `${dollars ? "US dollars" : "Tokens"} of one pass over an entry’s tasks, each gridline ten times the one before.`,
    chart({ label: "Cost against rank score", height: 260, x: { domain: [low, high], title: dollars ? "log₁₀ of cost (US dollars)" : "log₁₀ of tokens", ticks: powers }, y: { domain: [0, 1], title: "mean rank score" },
      rows: () => [["entry", dollars ? "cost" : "tokens", "rank score", "low", "high"], ...known.map((entry) => [entry.entry, spent(entry), entry.rank_score.value, ...(entry.rank_score.interval ?? [null, null])])],
      draw: (frame) => known.map((entry) => {
        const own = look(entry.entry);
        const x = frame.x(Math.log10(spent(entry)));
        const parts = [mark(own.shape, x, frame.y(entry.rank_score.value), 5.5, { class: "dot" })];
        if (entry.rank_score.interval) parts.unshift(s("line", { x1: x, x2: x, y1: frame.y(entry.rank_score.interval[0]), y2: frame.y(entry.rank_score.interval[1]), class: "whisker own" }));
        return tell(s("g", { class: `c${own.colour}` }, parts), [entry.entry, dollars ? money(entry.cost_usd, entry.cost_is_lower_bound) : `${short(entry.tokens)} tokens`, `rank score ${measured(entry.rank_score)}`]);
      }) }));
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
  const { compare, column } = choice(tickedRuns, { name: (run) => run.id, label: (run) => `Choose ${run.entry} on ${run.task} to compare`, address: (ids) => `#/compare/${ids.sort().join("/")}` });
  return [h("p", { class: "compare" }, compare),
    found.length ? table([column, ...runColumns(found)], found, { caption: "Runs", most: MOST_ROWS }) : nothing(all ? "No run matches these filters." : "There are no runs here yet.", "Play one: ", h("code", null, "evopolicygym run acrobot")),
    problems.length ? h("details", { class: "warning" }, h("summary", null, `${count(problems.length)} can’t be read`), h("ul", null, problems.map((problem) => h("li", null, h("code", null, problem.place), ` ${problem.reason}`)))) : null];
}

// Where a run stands; one that no process plays is not being played, whatever its record says last.
export function stateOf(run) {
  if (run.stage === "finished") return run.status === "scored" ? "scored" : h("span", { class: "tag" }, "nothing to score");
  if (!run.is_played) return h("span", { class: "tag bad" }, "interrupted");
  return h("span", { class: "tag live" }, STAGES[run.stage] ?? run.stage);
}
