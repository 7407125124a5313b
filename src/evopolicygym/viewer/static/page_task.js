// A task: the learning curves of all entries on one axis, and their held-out returns.

import { h, s, link, table, number, plusMinus, section, facts, fact, finite, count } from "./dom.js";
import { load, follow } from "./data.js";
import { chart, domain, styles, mark, tell, path, stairs, legend } from "./chart.js";
import { stateOf } from "./page_suite.js";
import { sideBySide } from "./side_by_side.js";

export async function taskPage({ words: [name] }) {
  const element = h("div");
  let task = await load(`task/${encodeURIComponent(name)}`);
  const draw = () => element.replaceChildren(...parts(task));
  draw();
  return {
    title: task.name, element, crumbs: [[null, task.name]],
    end: follow("pulse", async () => { task = await load(`task/${encodeURIComponent(name)}`); draw(); }),
  };
}

function parts(task) {
  const runs = task.entries.flatMap((one) => one.runs);
  const look = styles(task.entries.map((one) => one.entry));
  const shapes = task.entries.map((one) => ({ shape: look.get(one.entry).shape, className: `dot c${look.get(one.entry).colour}`, line: `curve c${look.get(one.entry).colour}`, text: one.entry }));
  return [
    h("div", { class: "head" }, h("div", null, h("h1", null, task.name), h("p", { class: "lead" }, `${task.family}, ${task.kind}; ${count(runs.length)} runs of ${count(task.entries.length)} entries`)),
      facts(task.random === null ? null : fact("uniform random", number(task.random)), task.idle === null ? null : fact("idle action", number(task.idle)),
        task.published.length ? fact("best published", number(Math.max(...task.published.map((one) => one.score)))) : null)),
    task.commitments > 1 ? h("p", { class: "warning" }, "These runs were played on different cases: differences between them are not the agents’ alone.") : null,
    ...(task.published_elsewhere ?? []).map((note) => h("p", { class: "soft" }, note)),
    legend([...shapes, ...(task.random === null ? [] : [{ line: "anchor", text: "uniform random" }])]),
    section("Learning curves", "Best mean validation return so far, against train episodes spent. Each line is a run.", curves(task, look)),
    section("Held-out returns", "Each dot is a hidden case; the bar is the mean with its standard error.", distribution(task, look)),
    task.films?.length ? section("Films", "The same case, as each run’s selected checkpoint plays it; of train cases the latest film.", sideBySide(task.films)) : null,
    section("Runs", null, runTable(runs)),
  ].filter(Boolean);
}

function curves(task, look) {
  const all = task.entries.flatMap((one) => one.runs.flatMap((run) => run.curve.map(([, value]) => value)));
  if (!all.length) return h("p", { class: "soft" }, "No run has validated a checkpoint yet; that happens once its budget is spent.");
  return chart({ role: "group", label: `Learning curves on ${task.name}`, height: 320, x: { domain: [0, task.budget], title: "train episodes spent" }, y: { domain: domain([...all, task.random]), title: "best validation return" },
    draw: (frame) => [anchorLine(frame, task.random), ...task.entries.flatMap((one) => one.runs.filter((run) => run.curve.length).map((run) => {
      const own = look.get(one.entry);
      const last = run.curve.at(-1);
      const line = s("g", { class: `c${own.colour}` },
        path(stairs(run.curve, frame.x, frame.y, 0), { class: "curve" }), path(stairs(run.curve, frame.x, frame.y, 0), { class: "hit" }),
        run.curve.slice(0, -1).map(([at, value]) => mark(own.shape, frame.x(at), frame.y(value), 3, { class: "dot" })),
        mark(own.shape, frame.x(last[0]), frame.y(last[1]), 4.5, { class: "dot" }));
      return s("a", { href: `#/run/${run.id}`, "aria-label": `${one.entry}, seed ${run.seed}` }, tell(line, [one.entry, `seed ${run.seed}`, `best validation ${number(last[1])}`]));
    }))] });
}

export function anchorLine(frame, value) {
  if (finite(value) === null) return null;
  return s("line", { x1: frame.left, x2: frame.right, y1: frame.y(value), y2: frame.y(value), class: "anchor" });
}

function distribution(task, look) {
  const runs = task.entries.flatMap((one) => one.runs.filter((run) => run.returns.length).map((run) => ({ run, entry: one.entry })));
  if (!runs.length) return h("p", { class: "soft" }, "No run has been scored yet.");
  const line = 26, height = runs.length * line + 66;
  return chart({ role: "group", label: `Held-out returns on ${task.name}`, height, left: 20, top: 8, yTicks: false, x: { domain: domain([...runs.flatMap(({ run }) => run.returns), task.random]), title: "held-out return" }, y: { domain: [runs.length, 0], title: "" },
    draw: (frame) => [
      finite(task.random) === null ? null : s("line", { x1: frame.x(task.random), x2: frame.x(task.random), y1: frame.top, y2: frame.bottom, class: "anchor" }),
      ...runs.map(({ run, entry }, place) => {
        const own = look.get(entry);
        const y = frame.top + (place + 0.5) * line;
        const group = s("g", { class: `c${own.colour}` }, run.returns.map((value, at) => finite(value) === null ? null : mark(own.shape, frame.x(value), y + ((at * 7) % 9) - 4, 2.6, { class: "dot faint" })),
          s("line", { x1: frame.x(run.score - run.standard_error), x2: frame.x(run.score + run.standard_error), y1: y, y2: y, class: "whisker own" }),
          s("line", { x1: frame.x(run.score), x2: frame.x(run.score), y1: y - 10, y2: y + 10, class: "mean" }));
        return s("a", { href: `#/run/${run.id}`, "aria-label": `${entry}, seed ${run.seed}` }, tell(group, [entry, `seed ${run.seed}, ${run.returns.length} cases`, `mean ${number(run.score, undefined, run.standard_error)} ± ${number(run.standard_error, undefined, run.standard_error)}`]));
      })] });
}

function runTable(runs) {
  return table([
    { name: "entry", text: true, value: (r) => r.entry, cell: (r) => link(`#/run/${r.id}`, h("span", { class: "name", title: r.entry }, r.entry)) },
    { name: "seed", value: (r) => r.seed },
    { name: "score ± s.e.", title: "Mean held-out return ± its standard error", value: (r) => finite(r.score), cell: (r) => (r.score === null ? "–" : plusMinus(r.score, r.standard_error)) },
    { name: "submissions", value: (r) => r.submissions },
    { name: "episodes", value: (r) => r.spent, cell: (r) => `${r.spent} / ${r.budget}` },
    { name: "state", text: true, value: (r) => r.stage, cell: stateOf },
  ], runs, { caption: "Runs", sort: { name: "score ± s.e.", down: true } });
}
