// A task: the learning curves of all entries on one axis, and their held-out returns.

import { h, s, table, number, plural, section, facts, fact, finite } from "./dom.js";
import { load, follow } from "./data.js";
import { chart, domain, mark, tell, path, stairs, legend } from "./chart.js";
import { groupedName, runColumns } from "./page_entry.js";
import { region } from "./region.js";
import { sideBySide } from "./side_by_side.js";

export async function taskPage({ words: [name], look }) {
  const address = `task/${encodeURIComponent(name)}`;
  let task = await load(address);
  const pictures = region((found) => parts(found, look));
  const films = region((found) => (found.length ? section("Films", "The same case, as each run’s selected checkpoint plays it; of train cases the latest film.", sideBySide(found)) : null));
  const runs = region((found) => section("Runs", null, table(runColumns(found, ["task"]), found, { caption: "Runs", sort: { name: "score ± s.e.", down: true } })));
  const draw = () => {
    pictures.show({ ...task, films: null });
    films.show(task.films ?? []);
    runs.show(task.entries.flatMap((one) => one.runs));
  };
  draw();
  return {
    title: task.task, element: h("div", null, pictures.element, films.element, runs.element), crumbs: [[null, task.task]],
    end: follow("pulse", async () => { task = await load(address); draw(); }),
  };
}

function parts(task, look) {
  const runs = task.entries.flatMap((one) => one.runs);
  const shapes = task.entries.map((one) => ({ shape: look(one.entry).shape, className: `dot c${look(one.entry).colour}${secondOf(task, one)}`, line: `curve c${look(one.entry).colour}${secondOf(task, one)}`, text: groupedName(one) }));
  const repeated = task.entries.some((one) => meanOf(one).length);
  const entries = new Set(task.entries.map((one) => one.entry)).size, groups = new Set(task.entries.map((one) => one.group)).size;
  return [
    h("div", { class: "head" }, h("div", null, h("h1", null, task.task), h("p", { class: "lead" }, `${task.family}, ${task.kind}; ${plural(runs.length, "run")} of ${plural(entries, "entry", "entries")}`)),
      facts(task.random_anchor ? fact("uniform random", number(task.random_anchor.mean)) : null, task.idle_anchor ? fact("idle action", number(task.idle_anchor.mean)) : null,
        task.published.length ? fact("best published", number(Math.max(...task.published.map((one) => one.score)))) : null)),
    groups > 1 ? h("p", { class: "warning" }, "These runs are of several groups that may not be compared: only runs of one group are repeats of an entry.") : null,
    task.commitments > 1 ? h("p", { class: "warning" }, "These runs were played on different cases: differences between them are not the agents’ alone.") : null,
    ...(task.published_elsewhere ?? []).map((note) => h("p", { class: "soft" }, note)),
    legend([...shapes, ...(task.random_anchor ? [{ line: "anchor", text: "uniform random" }] : [])]),
    section("Learning curves", `Best mean validation return so far, against train episodes spent. ${repeated ? "A thick line is the mean over an entry’s runs, with a band of its standard error on either side; thin lines are the runs." : "Each line is a run."}`, curves(task, look)),
    section("Held-out returns", "Each dot is a hidden case; the bar is the mean with its standard error.", distribution(task, look)),
  ];
}

const curvesOf = (one) => one.runs.filter((run) => run.curve.length);

// Runs that are in no group yet are repeats of nothing.
const meanOf = (one) => (one.group === null ? [] : meanCurve(curvesOf(one).map((run) => run.curve)));

// What an entry looks like besides its colour and shape: its second group, and further ones, are dashed and hollow.
function secondOf(task, one) {
  return task.entries.find((other) => other.entry === one.entry) === one ? "" : " second";
}

export function curves(task, look) {
  const all = task.entries.flatMap((one) => one.runs.flatMap((run) => run.curve.map(([, value]) => value)));
  if (!all.length) return h("p", { class: "soft" }, "No run has validated a checkpoint yet; that happens once its budget is spent.");
  const means = new Map(task.entries.map((one) => [one, meanOf(one)]));
  const ends = [...means.values()].flatMap((mean) => mean.flatMap(([, value, error]) => [value - error, value + error]));
  return chart({ role: "group", label: `Learning curves on ${task.task}`, height: 320, x: { domain: [0, task.budget], title: "train episodes spent", whole: true }, y: { domain: domain([...all, ...ends, task.random_anchor?.mean]), title: "best validation return" },
    rows: () => [["entry", "group", "run", "seed", "episodes", "best validation"], ...task.entries.flatMap((one) => one.runs.flatMap((run) => run.curve.map(([at, value]) => [one.entry, one.group, run.id, run.seed, at, value])))],
    draw: (frame) => [anchorLine(frame, task.random_anchor?.mean), ...task.entries.flatMap((one) => {
      const own = look(one.entry), mean = means.get(one), second = secondOf(task, one);
      const class_ = `c${own.colour}`;
      return [
        mean.length ? s("g", { class: class_ }, bandOf(mean, frame)) : null,
        ...curvesOf(one).map((run) => {
          const last = run.curve.at(-1);
          const line = s("g", { class: `${class_}${mean.length ? " thin" : ""}` },
            path(stairs(run.curve, frame.x, frame.y, 0), { class: `curve${second}` }), path(stairs(run.curve, frame.x, frame.y, 0), { class: "hit" }),
            mean.length ? null : run.curve.slice(0, -1).map(([at, value]) => mark(own.shape, frame.x(at), frame.y(value), 3, { class: `dot${second}` })),
            mark(own.shape, frame.x(last[0]), frame.y(last[1]), mean.length ? 3 : 4.5, { class: `dot${second}` }));
          return s("a", { href: `#/run/${run.id}`, "aria-label": `${groupedName(one)}, seed ${run.seed}` }, tell(line, [groupedName(one), `seed ${run.seed}`, `best validation ${number(last[1])}`]));
        }),
        mean.length ? s("g", { class: class_ }, path(stairs(mean.map(([at, value]) => [at, value]), frame.x, frame.y, 0), { class: `curve average${second}` }),
          mark(own.shape, frame.x(mean.at(-1)[0]), frame.y(mean.at(-1)[1]), 5, { class: `dot${second}` })) : null,
      ];
    })] });
}

// The mean of several curves wherever all have begun and any changes, as [episodes, mean, standard error]; none of one curve.
function meanCurve(all) {
  if (all.length < 2) return [];
  const begin = Math.max(...all.map((curve) => curve[0][0]));
  const places = [...new Set(all.flatMap((curve) => curve.map(([at]) => at)))].filter((at) => at >= begin).sort((a, b) => a - b);
  return places.map((at) => {
    const values = all.map((curve) => curve.findLast(([other]) => other <= at)[1]);
    const mean = values.reduce((total, value) => total + value / values.length, 0);
    const variance = values.reduce((total, value) => total + (value - mean) ** 2, 0) / (values.length - 1);
    return [at, mean, Math.sqrt(variance / values.length)];
  });
}

function bandOf(mean, frame) {
  const side = (sign) => stairs(mean.map(([at, value, error]) => [at, value + sign * error]), frame.x, frame.y, 0);
  return path([...side(1), ...side(-1).reverse()], { class: "spreadband" });
}

export function anchorLine(frame, value) {
  if (finite(value) === null) return null;
  return s("line", { x1: frame.left, x2: frame.right, y1: frame.y(value), y2: frame.y(value), class: "anchor" });
}

const LABEL = 190, SHORTEST = 460;

function distribution(task, look) {
  const runs = task.entries.flatMap((one) => one.runs.filter((run) => run.held_out_returns.length).map((run) => ({ run, entry: one.entry, name: groupedName(one) })));
  if (!runs.length) return h("p", { class: "soft" }, "No run has been scored yet.");
  const line = 26, height = runs.length * line + 66;
  return chart({ role: "group", label: `Held-out returns on ${task.task}`, height, left: (width) => (width < SHORTEST ? 92 : LABEL), top: 8, yTicks: false, x: { domain: domain([...runs.flatMap(({ run }) => run.held_out_returns), task.random_anchor?.mean]), title: "held-out return" }, y: { domain: [runs.length, 0], title: "" },
    rows: () => [["entry", "group", "run", "seed", "case", "return"], ...runs.flatMap(({ run, entry }) => run.held_out_returns.map((value, at) => [entry, run.group, run.id, run.seed, at, value]))],
    draw: (frame) => [
      task.random_anchor ? s("line", { x1: frame.x(task.random_anchor.mean), x2: frame.x(task.random_anchor.mean), y1: frame.top, y2: frame.bottom, class: "anchor" }) : null,
      ...runs.map(({ run, entry, name }, place) => {
        const own = look(entry);
        const y = frame.top + (place + 0.5) * line;
        const text = name === entry ? `${entry} ${run.seed}` : `${name}, ${run.seed}`, label = shortened(text, (frame.left - 12) / 6.6);
        const group = s("g", { class: `c${own.colour}` },
          s("text", { x: frame.left - 10, y: y + 4, "text-anchor": "end", class: "rowlabel" }, label),
          run.held_out_returns.map((value, at) => (finite(value) === null ? null : mark(own.shape, frame.x(value), y + ((at * 7) % 9) - 4, 2.6, { class: "dot faint" }))),
          finite(run.score) === null ? null : [
            finite(run.score_standard_error) === null ? null : s("line", { x1: frame.x(run.score - run.score_standard_error), x2: frame.x(run.score + run.score_standard_error), y1: y, y2: y, class: "whisker own" }),
            s("line", { x1: frame.x(run.score), x2: frame.x(run.score), y1: y - 10, y2: y + 10, class: "mean" })]);
        return s("a", { href: `#/run/${run.id}`, "aria-label": label === text ? text : `${label}, ${text}` }, tell(group, [name, `seed ${run.seed}, ${plural(run.held_out_returns.length, "case")}`, `mean ${number(run.score, undefined, run.score_standard_error)} ± ${number(run.score_standard_error, undefined, run.score_standard_error)}`]));
      })] });
}

// As many letters as there is room for; the end, which holds the seed, stays.
function shortened(text, most) {
  if (text.length <= most) return text;
  const end = text.slice(text.lastIndexOf(" "));
  return `${text.slice(0, Math.max(1, Math.floor(most) - end.length - 1))}…${end}`;
}
