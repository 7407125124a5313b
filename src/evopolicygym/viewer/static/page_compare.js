// Two runs on the same cases: how they came there, and where they differ.

import { h, s, link, named, number, errorOf, section, fact, facts, finite, plusMinus } from "./dom.js";
import { load } from "./data.js";
import { chart, domain, mark, tell, path, stairs, legend } from "./chart.js";
import { compareEntriesPage, compareRunsPage } from "./page_compare_many.js";
import { anchorLine } from "./page_task.js";

const LETTERS = ["A", "B"];

export async function comparePage(now) {
  const { words: [one, other], look } = now;
  if (now.asked.has("entry")) return compareEntriesPage(now);
  if (now.words.length > 2) return compareRunsPage(now);
  if (!one || !other) throw new Error("Two runs are compared; choose them in the list of runs.");
  const comparison = await load(`compare/${encodeURIComponent(one)}/${encodeURIComponent(other)}`);
  const [a, b] = comparison.runs;
  const looks = comparison.runs.map((run) => look(run.agent)).map((own, place) => ({ ...own, name: LETTERS[place], second: place === 1 && a.agent === b.agent ? " second" : "" }));
  const element = h("div", null,
    h("div", { class: "head" }, h("div", null, h("h1", null, "Two runs on ", a.task === b.task ? a.task : `${a.task} and ${b.task}`), h("p", { class: "lead" }, "A less B: above zero, A is better."))),
    h("div", { class: "pair" }, comparison.runs.map((run, place) => h("article", { class: `c${looks[place].colour}` },
      h("h2", null, s("svg", { width: 16, height: 16, viewBox: "-8 -8 16 16", "aria-hidden": "true" }, mark(looks[place].shape, 0, 0, 5, { class: `dot${looks[place].second}` })), ` ${looks[place].name}  `, link(`#/run/${run.id}`, named(run.agent))),
      facts(fact("score", run.score === null ? "–" : plusMinus(run.score, run.score_standard_error)), fact("seed", run.seed ?? "–"), fact("submissions", run.submissions), fact("episodes", `${run.spent} / ${run.budget}`))))),
    comparison.why ? h("p", { class: "warning" }, comparison.why) : difference(comparison, looks),
    comparison.command ? h("p", { class: "note" }, "The same in a terminal: ", h("code", null, comparison.command)) : null,
    comparison.notes?.length ? h("ul", { class: "notes" }, comparison.notes.map((note) => h("li", null, note))) : null,
    a.task === b.task && comparison.runs.some((run) => run.curve.length) ? section("Learning curves", "Best mean validation return so far.", curves(comparison.runs, looks)) : null,
    legend(looks.map((look, place) => ({ shape: look.shape, className: `dot c${look.colour}${look.second}`, line: `curve c${look.colour}${look.second}`, text: `${look.name}: ${comparison.runs[place].agent}, seed ${comparison.runs[place].seed}` }))));
  return { title: `${a.agent} and ${b.agent}`, element, crumbs: [[null, "Compare"]] };
}

function difference(comparison, looks) {
  const { mean, interval, paired, interval_covers: covers } = comparison.difference;
  const verdict = interval ? `The interval covers other ${covers}, not what another run of either agent would do: one run of each decides nothing about the agents.` : "";
  const bounds = domain([0, mean, ...(interval ?? []), ...comparison.pairs.map(([x, y]) => x - y)]);
  const order = comparison.pairs.map(([x, y], place) => ({ place, x, y, apart: x - y })).sort((p, q) => p.apart - q.apart);
  return h("div", null,
    section("Held-out", null, h("p", { class: "verdict" }, h("span", { class: "big" }, number(mean, undefined, errorOf({ interval }))), interval ? h("span", { class: "soft" }, ` 95 % interval ${number(interval[0], undefined, errorOf({ interval }))} to ${number(interval[1], undefined, errorOf({ interval }))}, ${paired ? "paired by case" : "not paired: other cases"}`) : null), h("p", null, verdict)),
    order.length ? section("Case by case", "Difference of held-out returns, A less B, in the order of its size.",
      chart({ label: "Paired differences by case", height: 260, x: { domain: [0, order.length], title: "cases, in the order of their difference", ticks: [] }, y: { domain: bounds, title: "A − B, return" },
        rows: () => [["case", "A", "B", "difference"], ...order.map(({ place, x, y, apart }) => [place, x, y, apart])],
        draw: (frame) => [
          interval ? s("rect", { x: frame.left, width: frame.right - frame.left, y: frame.y(interval[1]), height: Math.max(2, frame.y(interval[0]) - frame.y(interval[1])), class: "heldout" }) : null,
          s("line", { x1: frame.left, x2: frame.right, y1: frame.y(0), y2: frame.y(0), class: "base" }),
          ...order.map(({ place, x, y, apart }, at) => {
            if (finite(apart) === null) return null;
            const across = frame.x(at + 0.5);
            const look = looks[apart >= 0 ? 0 : 1];
            return tell(s("g", { class: `c${look.colour}` }, s("line", { x1: across, x2: across, y1: frame.y(0), y2: frame.y(apart), class: "whisker own" }), mark(look.shape, across, frame.y(apart), 3.6, { class: `dot${look.second}` })),
              [`case ${place}`, `A ${number(x)}, B ${number(y)}`, `difference ${number(apart)}`]);
          })] })) : null);
}

function curves(runs, looks) {
  const values = runs.flatMap((run) => run.curve.map(([, value]) => value));
  return chart({ label: "Learning curves of both", height: 260, x: { domain: [0, Math.max(...runs.map((run) => run.budget))], title: "train episodes spent", whole: true }, y: { domain: domain([...values, runs[0].random_anchor?.mean]), title: "best validation return" },
    rows: () => [["run", "agent", "seed", "episodes", "best validation"], ...runs.flatMap((run, place) => run.curve.map(([at, value]) => [looks[place].name, run.agent, run.seed, at, value]))],
    draw: (frame) => [anchorLine(frame, runs[0].random_anchor?.mean), ...runs.map((run, place) => s("g", { class: `c${looks[place].colour}` }, path(stairs(run.curve, frame.x, frame.y, 0), { class: `curve${looks[place].second}` }), run.curve.map(([at, value]) => mark(looks[place].shape, frame.x(at), frame.y(value), 3.4, { class: `dot${looks[place].second}` }))))] });
}
