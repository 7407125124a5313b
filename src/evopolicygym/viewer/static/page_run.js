// A run: its evolution on a time line of episodes spent, and what one submission changed and heard.

import { findingsOf, seriousIn } from "./audit.js";
import { h, s, link, named, number, plural, withError, count, short, money, duration, moment, facts, fact, finite, nothing } from "./dom.js";
import { load, follow } from "./data.js";
import { chart, domain, mark, tell, path, stairs, legend, quiet } from "./chart.js";
import { EDITS, lineage } from "./lineage.js";
import { entryAddress, experimentAddress, experimentName, tagAddress } from "./page_entry.js";
import { FAULTS } from "./page_suite.js";
import { readdress } from "./memory.js";
import { region } from "./region.js";
import { TABS, submissionPanel, edited, gained } from "./submission.js";

export async function runPage(now) {
  const id = now.words[0];
  let run = await load(`run/${id}`);
  let left = false;
  const state = { at: 0, tab: TABS[0] };
  let line = null; // the time line, in which the chosen submission is marked
  const panel = submissionPanel((tab) => choose(state.at, tab));
  const head = region(([shown, found]) => heading(shown, found));
  let audit = null; // what an audit found; it comes after the rest
  const conduct = region(([found]) => (found === null ? null : findingsOf(run, found)));
  const pictures = region((shown) => {
    line = shown.submission_rows.length ? timeline(shown, choose) : null;
    return line ? [line, marksLegend(shown), shown.submission_rows.some((one) => finite(one.parent) !== null) ? lineage(shown, choose, summary) : null] : null;
  }, { class: "timeline" });
  const list = region((submissions) => h("ol", { class: "submissions", "aria-label": "Submissions" }, submissions.map((one) => h("li", null, row(one, choose)))));
  const split = h("div", { class: "split" }, h("nav", { "aria-label": "Submissions" }, list.element), panel.element);
  let end = () => {};

  function read({ words }) {
    const asked = Number.parseInt(words[1] ?? "", 10);
    const fallback = run.selected_submission ?? Math.max(0, run.submission_rows.length - 1);
    state.at = Number.isInteger(asked) && asked >= 0 && asked < run.submission_rows.length ? asked : fallback;
    state.tab = TABS.includes(words[2]) ? words[2] : state.tab;
    state.rest = words.slice(3);
  }
  function choose(at, tab = state.tab) {
    if (at < 0 || at >= run.submission_rows.length) return;
    readdress(`#/run/${id}/${at}/${tab}`);
    Object.assign(state, { at, tab, rest: [] });
    quiet();
    marked();
    panel.show(run, state);
  }
  function marked() {
    const items = [...list.element.querySelectorAll("li")];
    items.forEach((item, place) => item.firstChild.setAttribute("aria-current", place === state.at ? "true" : "false"));
    const item = items[state.at], box = list.element.firstChild;
    if (item) {
      const top = item.offsetTop;
      if (top < box.scrollTop || top > box.scrollTop + box.clientHeight - item.offsetHeight) box.scrollTop = top - box.clientHeight / 2;
    }
    line?.select(state.at);
  }
  function draw() {
    head.show([run, audit]);
    conduct.show([audit]);
    pictures.show(run);
    list.show(run.submission_rows);
    split.hidden = !run.submission_rows.length;
    marked();
  }
  // Edits come after the rest at first: telling them apart takes a moment where there are many.
  async function withEdits(found) {
    const { edits } = await load(`run/${id}/edits`).catch(() => ({ edits: [] }));
    edits.forEach((edit, place) => Object.assign(found.submission_rows[place] ?? {}, edit));
    return found;
  }
  async function withAudit() {
    const found = await load(`run/${id}/audit`).catch(() => false);
    if (left) return;
    audit = found;
    draw();
  }
  read(now);
  draw();
  if (run.stage !== "finished") {
    end = follow(`run/${id}/pulse`, async () => {
      const found = await withEdits(await load(`run/${id}`));
      if (left) return;
      const first = !run.submission_rows.length;
      run = found;
      if (first) read({ words: [] });
      draw();
      if (run.submission_rows.length) panel.refresh(run, state);
      if (run.stage === "finished") { end(); withAudit(); }
    });
  }
  const bests = () => run.submission_rows.filter((one) => one.is_new_best).map((one) => one.submission);
  return {
    title: `${run.agent} on ${run.task}`, element: h("div", null, head.element, pictures.element, split, conduct.element), crumbs: [[`#/task/${encodeURIComponent(run.task)}`, run.task], [null, run.run_id]],
    ready: async () => {
      marked();
      if (run.submission_rows.length) await panel.show(run, state);
      if (run.stage === "finished") withAudit();
      withEdits(structuredClone(run)).then((found) => {
        if (left || found.submission_rows.length < run.submission_rows.length) return;
        run = found;
        draw();
        if (run.submission_rows.length) panel.refresh(run, state);
      });
    },
    update: (next) => { read(next); marked(); if (run.submission_rows.length) panel.show(run, state); },
    end: () => { left = true; end(); },
    keys: (event) => {
      const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
      if (step) { choose(state.at + step); return true; }
      if ("1234".includes(event.key)) { choose(state.at, TABS[Number(event.key) - 1]); return true; }
      if (event.key === "]") { choose(bests().find((at) => at > state.at) ?? state.at); return true; }
      if (event.key === "[") { choose(bests().findLast((at) => at < state.at) ?? state.at); return true; }
      return false;
    },
  };
}

const PLAYED = { open: "being played", closed: "validation is played", selected: "held-out is played" };

function heading(run, audit) {
  const live = run.stage !== "finished";
  return [
    h("div", { class: "head" },
      h("div", null, h("h1", null, link(entryAddress(run.agent), named(run.agent)), h("span", { class: "on" }, " on "), link(`#/task/${encodeURIComponent(run.task)}`, named(run.task))),
        h("div", { class: "lead" }, live && run.activity.is_played ? h("span", { class: "tag live" }, PLAYED[run.stage]) : live ? h("span", { class: "tag bad" }, "interrupted") : null, ...objective(run.objective)),
        run.name || run.note || run.tags ? h("p", { class: "labels" }, run.name ? h("strong", null, run.name) : null, (run.tags ?? []).map((tag) => h("a", { class: "tag", href: tagAddress(tag) }, tag)), run.note ? ` ${run.note}` : null) : null),
      run.score === null ? null : h("div", { class: "score" }, h("div", { class: "big" }, number(run.score, undefined, run.score_standard_error)), h("div", { class: "soft" }, `± ${number(run.score_standard_error, undefined, run.score_standard_error)} over ${plural(run.held_out_cases, "held-out case")}`))),
    run.ended ? h("p", { class: endClass(run) }, run.ended.what, run.ended.why ? h("span", { class: "why" }, ` ${run.ended.why}`) : null) : null,
    run.repeats === false ? h("p", { class: "ended bad" }, "does not repeat", h("span", { class: "why" }, " two processes played short episodes differently, so the score can't be replayed")) : null,
    run.cases_differ === false ? h("p", { class: "ended bad" }, "cases may not differ", h("span", { class: "why" }, " the same actions gave one short episode for each seed: ± is of one case if they don't differ later")) : null,
    seriousIn(audit),
    facts(
      run.selected_submission === null ? null : fact("selected at", link(`#/run/${run.id}/${run.selected_submission}`, `submission ${run.selected_submission}`)),
      run.first_reached_submission === run.selected_submission ? null : fact("first reached at", link(`#/run/${run.id}/${run.first_reached_submission}`, `submission ${run.first_reached_submission}`)),
      fact("distinct checkpoints", `${count(run.distinct_checkpoints)} of ${count(run.candidates)} candidates`),
      fact("episodes", `${count(run.spent)} of ${count(run.budget)}`), fact("submissions", count(run.submission_rows.length)),
      run.random_anchor ? fact("uniform random", number(run.random_anchor.mean)) : null,
      run.published_best === null ? null : fact("best published", h("span", { title: run.published_source }, number(run.published_best))),
      run.tokens === null ? null : fact("tokens", short(run.tokens)), run.cost_usd === null ? null : fact("cost", money(run.cost_usd, run.cost_is_lower_bound)),
      fact("seed", run.seed ?? "–"), fact("cases", run.split || "–"), fact("isolation", run.isolation || "–"), run.seed === null ? fact("protocol", run.protocol_version) : null,
      run.experiment_id ? fact("experiment", link(experimentAddress(run.experiment_id), named(experimentName(run)))) : null,
      fact("record", h("span", { title: run.unchecked, class: run.record === "does not verify" ? "tag bad" : "" }, run.record)),
      fact("began", moment(run.opened_at)),
      live ? fact("last activity", moment(run.activity.last_activity)) : null,
      run.finished_at ? fact("took", duration((new Date(run.finished_at) - new Date(run.opened_at)) / 1000)) : null),
    run.record === "does not verify" ? h("p", { class: "note" }, `This record does not verify, and no table counts it: ${run.unchecked}`) : null,
    live && !run.activity.is_played ? interrupted(run) : null,
    run.submission_rows.length ? null : nothing(live && run.activity.is_played ? "Nothing has been submitted yet." : "Nothing was submitted.", live && run.activity.is_played ? "This page follows the run: the first submission shows here when it is charged." : ""),
    agentEnds(run),
  ];
}

// A run that did not end by its budget is marked; more so where it was not the agent's choice.
function endClass({ ended_by: by, is_early: isEarly }) {
  if (by === "budget") return "ended";
  return `ended ${isEarly && FAULTS.has(by) ? "bad" : "early"}`;
}

// Why no process plays a run that isn't finished, and what continues it.
function interrupted(run) {
  const stop = run.stops.at(-1);
  return h("div", { class: "warning" }, h("p", null, stop ? `It was stopped (${stop.reason.replaceAll("_", " ")}${stop.message ? `: ${stop.message}` : ""}). ` : "", "No process holds the lock of this run."),
    run.activity.resume ? h("p", null, "Resume it: ", h("code", null, run.activity.resume)) : null);
}

const IN_GOOD_ORDER = ["finished", "stopped"];

// How the agent's turns ended: always where nothing was submitted, else where one ended otherwise than well.
function agentEnds(run) {
  const ends = run.agent_turns.filter((turn) => turn.end && (!run.submission_rows.length || !IN_GOOD_ORDER.includes(turn.end)));
  if (!ends.length) return null;
  return h("details", { class: "ends", open: !run.submission_rows.length }, h("summary", null, "How the agent ended"), h("ul", null, ends.map((turn) => h("li", null,
    run.agent_turns.length > 1 ? `turn ${turn.turn}: ` : "", h("strong", null, turn.end.replaceAll("_", " ")), turn.ended_at ? h("span", { class: "soft" }, ` ${moment(turn.ended_at)}`) : null, turn.message ? h("pre", { tabindex: "0" }, turn.message) : null))));
}

function objective(sentences) {
  const end = sentences.search(/[.!?](\s|$)/) + 1;
  if (!end || end === sentences.length) return [sentences];
  return [sentences.slice(0, end), h("details", { class: "more" }, h("summary", null, "The task in full"), sentences.slice(end))];
}

function row(one, choose) {
  const edit = EDITS[one.edit_kind];
  const value = one.validation_mean !== null ? number(one.validation_mean, undefined, one.validation_standard_error) : one.train_mean === null ? "" : number(one.train_mean);
  return h("button", { type: "button", click: () => choose(one.submission), class: one.is_selected ? "selected" : null },
    h("span", { class: "index" }, one.submission),
    s("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", class: `edit ${one.edit_kind ?? ""}`, role: "img", "aria-label": edit?.[1] ?? "change unknown" }, edit ? mark(edit[0], 0, 0, 4.2) : null),
    h("span", { class: "what" }, one.published_at === null ? "playing …" : one.status === "ok" ? [`${one.episodes} ep.`, one.failed_episodes ? h("span", { class: "failed" }, ` ${one.failed_episodes} failed`) : null] : h("span", { class: "failed" }, one.status.replaceAll("_", " "))),
    h("span", { class: "value", title: one.validation_mean !== null ? "mean validation return" : "mean train return" }, value),
    h("span", { class: "flag", title: one.is_selected ? "selected" : one.is_new_best ? "a new best" : "" }, one.is_selected ? "◆" : one.is_new_best ? "▲" : ""));
}

// A mean and the ends of its standard error, of which nothing is there where it isn't known.
function withEnds(mean, error) {
  return finite(mean) === null ? [] : [mean, mean - (finite(error) ?? 0), mean + (finite(error) ?? 0)];
}

function timeline(run, choose) {
  const returns = run.submission_rows.flatMap((one) => one.episode_rows.map((episode) => episode.episode_return));
  const validation = run.submission_rows.flatMap((one) => withEnds(one.validation_mean, one.validation_standard_error));
  const scored = withEnds(run.score, run.score_standard_error);
  const random = run.random_anchor?.mean;
  const bests = run.submission_rows.filter((one) => finite(one.best) !== null).map((one) => [one.spent, one.best]);
  const places = new Map();
  let band = null;
  const drawn = chart({
    label: `Returns of ${run.submission_rows.length} submissions against train episodes spent`, height: 340, bottom: 72,
    x: { domain: [0, run.budget], title: "", whole: true }, y: { domain: domain([...returns, ...validation, ...scored, random]), title: "return" },
    rows: () => [["submission", "episodes", "spent", "status", "train mean", "validation mean", "standard error", "best", "edit", "selected"],
      ...run.submission_rows.map((one) => [one.submission, one.episodes, one.spent, one.status, one.train_mean, one.validation_mean, one.validation_standard_error, one.best, one.edit_kind, one.is_selected])],
    draw: (frame) => {
      places.clear();
      band = s("rect", { y: frame.top, height: frame.bottom - frame.top, x: 0, width: 0, class: "band" });
      const parts = [band];
      if (finite(random) !== null) parts.push(tell(s("line", { x1: frame.left, x2: frame.right, y1: frame.y(random), y2: frame.y(random), class: "anchor" }), [`uniform random ${number(random)}`]));
      if (finite(run.score) !== null && finite(run.score_standard_error) !== null) {
        const y = [run.score + run.score_standard_error, run.score - run.score_standard_error].map(frame.y);
        parts.push(tell(s("rect", { x: frame.left, width: frame.right - frame.left, y: y[0], height: Math.max(2, y[1] - y[0]), class: "heldout" }), [`held-out ${withError(run.score, run.score_standard_error)}`]));
      }
      if (bests.length) parts.push(path(stairs(bests, frame.x, frame.y, run.spent), { class: "best" }));
      const sizes = run.submission_rows.length > 60 ? 2 : 2.8;
      for (const one of run.submission_rows) {
        const from = one.spent - one.episodes, width = frame.x(one.spent) - frame.x(from);
        places.set(one.submission, [frame.x(from), width]);
        const group = s("g", { class: "submission", click: () => choose(one.submission) });
        group.append(s("rect", { x: frame.x(from), width, y: frame.top, height: frame.bottom - frame.top + 44, class: "target" }));
        one.episode_rows.forEach((episode) => {
          if (finite(episode.episode_return) === null) return;
          const x = frame.x(from + episode.position + 0.5);
          group.append(mark(episode.failure ? "cross" : "circle", x, frame.y(episode.episode_return), sizes, { class: episode.failure ? "train failure" : "train" }));
        });
        if (finite(one.validation_mean) !== null) {
          const x = frame.x(one.spent - 0.5 * one.episodes);
          const y = frame.y(one.validation_mean);
          if (finite(one.validation_standard_error) !== null) group.append(s("line", { x1: x, x2: x, y1: frame.y(one.validation_mean - one.validation_standard_error), y2: frame.y(one.validation_mean + one.validation_standard_error), class: "spread" }));
          if (one.is_selected) group.append(s("circle", { cx: x, cy: y, r: 10, class: "ring" }));
          group.append(mark("diamond", x, y, one.is_new_best ? 4.6 : 3.4, { class: one.is_new_best ? "validation newbest" : "validation" }));
        }
        const edit = EDITS[one.edit_kind];
        if (edit) group.append(mark(edit[0], frame.x(from) + width / 2, frame.bottom + 34, Math.min(4.2, Math.max(1.6, width / 2.6)), { class: `edit ${one.edit_kind}` }));
        if (one.status !== "ok" && one.published_at !== null) group.append(mark("cross", frame.x(from) + width / 2, frame.bottom - 8, 4, { class: "failure" }));
        parts.push(tell(group, summary(one)));
      }
      parts.push(s("text", { x: frame.left - 8, y: frame.bottom + 38, "text-anchor": "end", class: "small" }, "edit"));
      parts.push(s("text", { x: (frame.left + frame.right) / 2, y: frame.height - 6, "text-anchor": "middle", class: "axis-title" }, "train episodes spent"));
      if (drawn.at !== undefined) drawn.select(drawn.at);
      return parts;
    },
  });
  drawn.select = (at) => {
    drawn.at = at;
    const [x, width] = places.get(at) ?? [0, 0];
    band?.setAttribute("x", x);
    band?.setAttribute("width", Math.max(2, width));
  };
  return drawn;
}

function summary(one) {
  const lines = [`Submission ${one.submission}${one.is_selected ? ", selected" : one.is_new_best ? ", a new best" : ""}`];
  if (one.status !== "ok" && one.published_at !== null) lines.push(one.status.replaceAll("_", " "));
  if (one.train_mean !== null) lines.push(`train ${number(one.train_mean)} over ${one.episodes}`);
  if (one.validation_mean !== null) lines.push(`validation ${withError(one.validation_mean, one.validation_standard_error)}`);
  if (one.edit_kind) lines.push(edited(one));
  if (finite(one.paired_gain) !== null) lines.push(gained(one));
  if (one.hypothesis) lines.push(`hypothesis: ${one.hypothesis}`);
  return lines;
}

function marksLegend(run) {
  return legend([
    { shape: "circle", className: "train", text: "train episode" }, { shape: "cross", className: "failure", text: "policy failed" },
    { shape: "diamond", className: "validation", text: "validation mean" }, { shape: "diamond", className: "validation newbest", text: "a new best" },
    { line: "best", text: "best so far" }, run.score !== null ? { line: "heldout-line", text: "held-out ± s.e." } : null, { line: "anchor", text: "uniform random" },
    ...Object.entries(EDITS).map(([edit, [shape]]) => ({ shape, className: `edit ${edit}`, text: edit })),
  ].filter(Boolean));
}
