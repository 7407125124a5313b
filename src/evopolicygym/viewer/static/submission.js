// One submission in detail, in four tabs: what it changed, what came back, what the agent said, its episodes.

import { h, put, link, number, count, plural, short, money, duration, plusMinus, finite } from "./dom.js";
import { region } from "./region.js";
import { changeTab } from "./tab_change.js";
import { episodesTab } from "./tab_episodes.js";
import { feedbackTab } from "./tab_feedback.js";
import { transcriptTab } from "./tab_transcript.js";

const KINDS = { change: changeTab, feedback: feedbackTab, transcript: transcriptTab, episodes: episodesTab };
export const TABS = Object.keys(KINDS);

// Returns {element, show(run, {at, tab, rest}), refresh(run, …)}; choose(tab) is called where another tab is wanted. What
// is shown stays where a run goes on: refresh changes only what is no longer true.
export function submissionPanel(choose) {
  const head = region(([run, one]) => heading(run, one));
  const buttons = TABS.map((name) => h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "tabpanel", click: () => choose(name), keydown: walked }, name));
  const body = h("div", { class: "tabbody", role: "tabpanel", id: "tabpanel", tabindex: "0" });
  let turn = 0;
  let open = null; // the tab that is shown

  function walked(event) {
    const at = buttons.indexOf(event.currentTarget);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    buttons.at(to % buttons.length).focus();
    choose(TABS.at(to % buttons.length));
  }

  async function show(run, { at, tab, rest }) {
    const own = (turn += 1);
    head.show([{ id: run.id }, run.submission_rows[at]]);
    buttons.forEach((button, place) => {
      button.setAttribute("aria-selected", String(TABS[place] === tab));
      button.tabIndex = TABS[place] === tab ? 0 : -1;
    });
    body.setAttribute("aria-labelledby", `tab-${tab}`);
    open = null;
    const waiting = setTimeout(() => { if (own === turn) put(body, h("p", { class: "loading" }, "Loading …")); }, 120);
    try {
      const found = await KINDS[tab](run, run.submission_rows[at], { rest, body });
      if (own !== turn) return;
      open = found;
      put(body, found.element);
      body.scrollTop = 0;
      found.ready?.();
    } catch (error) {
      if (own === turn) put(body, h("p", { class: "trouble", role: "alert" }, error.message));
    } finally {
      clearTimeout(waiting);
    }
  }

  return {
    element: h("div", { class: "panel" }, head.element, h("div", { class: "tabs", role: "tablist", "aria-label": "Of this submission" }, buttons), body),
    show,
    async refresh(run, state) {
      head.show([{ id: run.id }, run.submission_rows[state.at]]);
      await open?.refresh?.(run, run.submission_rows[state.at]).catch(() => {}); // the next time, perhaps
    },
  };
}

function heading(run, one) {
  return [
    h("h2", null, `Submission ${one.submission}`, one.is_selected ? h("span", { class: "tag good" }, "selected") : one.is_new_best ? h("span", { class: "tag good" }, "new best") : null,
      one.status !== "ok" && one.published_at !== null ? h("span", { class: "tag bad" }, one.status.replaceAll("_", " ")) : null),
    h("p", { class: "line" }, sentence(run, one))];
}

// What a submission changed against its parent, in words.
export function edited(one) {
  if (one.edit_kind === "none") return "nothing changed";
  const parent = one.parent === -1 ? "the starter" : `submission ${one.parent}`;
  const words = { revert: `a return to ${parent}`, repair: `a repair, from ${parent}` }[one.edit_kind] ?? `${one.edit_kind} edit of ${parent}`;
  const lines = one.changed_lines ? `, ${count(one.changed_lines)} ${one.changed_lines === 1 ? "line" : "lines"}` : "";
  return `${words}${lines}${one.mended_by === null ? "" : `, mended by ${one.mended_by}`}${one.acts_by_episode ? ", acts by episode" : ""}`;
}

export function gained({ paired_gain: mean, paired_gain_low: low, paired_gain_high: high }) {
  const error = low === null ? null : (high - low) / 4;
  const ends = low === null ? "" : ` [${number(low, undefined, error)}, ${number(high, undefined, error)}]`;
  return `gain over its parent ${number(mean, undefined, error)}${ends}`;
}

function sentence(run, one) {
  const parts = [plural(one.episodes, "train episode")];
  if (one.train_mean !== null) parts.push(`train ${number(one.train_mean)}`);
  if (one.validation_mean !== null) parts.push(["validation ", plusMinus(one.validation_mean, one.validation_standard_error)]);
  if (one.edit_kind) parts.push(edited(one));
  if (finite(one.paired_gain) !== null) parts.push(gained(one));
  if (one.is_hit) parts.push("a real gain");
  if (one.hypothesis) parts.push(`expected: ${one.hypothesis}`);
  const settings = Object.entries(one.settings ?? {});
  if (settings.length) parts.push(`set ${settings.map(([name, value]) => `${name} = ${value}`).join(", ")}`);
  if (one.same_as !== null) parts.push(link(`#/run/${run.id}/${one.same_as}`, `the same checkpoint as ${one.same_as}`));
  if (one.used) parts.push(`${short(one.used.tokens)} tokens since the one before${one.used.cost_usd === null ? "" : `, ${money(one.used.cost_usd, one.used.cost_is_lower_bound)}`}`);
  if (one.seconds !== null) parts.push(`played in ${duration(one.seconds)}`);
  return parts.flatMap((part, place) => (place ? [" · ", part] : [part]));
}
