// One submission in detail: what it changed, what came back, what the agent said, its episodes.

import { h, link, number, count, short, money, duration, nothing, plusMinus, table, finite } from "./dom.js";
import { load } from "./data.js";

export const TABS = ["change", "feedback", "transcript", "episodes"];
let turn = 0;

export async function details(panel, run, at, tab, choose) {
  const own = (turn += 1);
  const one = run.submissions[at];
  const body = h("div", { class: "tabbody", role: "tabpanel", id: "tabpanel", "aria-labelledby": `tab-${tab}`, tabindex: "0" });
  const tabs = h("div", { class: "tabs", role: "tablist" }, TABS.map((name) =>
    h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "tabpanel", "aria-selected": String(name === tab), click: () => choose(at, name) }, name)));
  const top = [h("h2", null, `Submission ${at}`, one.selected ? h("span", { class: "tag good" }, "selected") : one.new_best ? h("span", { class: "tag good" }, "new best") : null,
    one.status !== "ok" && !one.playing ? h("span", { class: "tag bad" }, one.status.replaceAll("_", " ")) : null), h("p", { class: "line" }, sentence(run, one))];
  const kept = panel.dataset.of === `${at}/${tab}` ? panel.querySelector(".tabbody") : null;
  if (kept) body.append(...kept.childNodes);
  panel.replaceChildren(...top, tabs, body);
  panel.dataset.of = `${at}/${tab}`;
  const waiting = setTimeout(() => { if (own === turn && !kept) body.replaceChildren(h("p", { class: "loading" }, "Loading …")); }, 120);
  try {
    const parts = await { change, feedback, transcript, episodes }[tab](run, one, body, () => own === turn);
    if (own === turn && parts) body.replaceChildren(...[parts].flat().filter(Boolean));
  } catch (error) {
    if (own === turn) body.replaceChildren(h("p", { class: "trouble", role: "alert" }, error.message));
  } finally {
    clearTimeout(waiting);
  }
}

// What a submission changed against its parent, in words.
export function edited(one) {
  if (one.edit === "none") return "nothing changed";
  const parent = one.parent === -1 ? "the starter" : `submission ${one.parent}`;
  const words = { revert: `a return to ${parent}`, repair: `a repair, from ${parent}` }[one.edit] ?? `${one.edit} edit of ${parent}`;
  const lines = one.changed_lines ? `, ${count(one.changed_lines)} ${one.changed_lines === 1 ? "line" : "lines"}` : "";
  return `${words}${lines}${one.mended_by === null ? "" : `, mended by ${one.mended_by}`}${one.acts_by_episode ? ", acts by episode" : ""}`;
}

export function gained(gain) {
  const error = gain.interval ? (gain.interval[1] - gain.interval[0]) / 4 : null;
  const ends = gain.interval ? ` [${number(gain.interval[0], undefined, error)}, ${number(gain.interval[1], undefined, error)}]` : "";
  return `gain over its parent ${number(gain.mean, undefined, error)}${ends}`;
}

function sentence(run, one) {
  const parts = [`${count(one.episodes.length)} train ${one.episodes.length === 1 ? "episode" : "episodes"}`];
  if (one.train !== null) parts.push(`train ${number(one.train)}`);
  if (one.validation) parts.push(["validation ", plusMinus(one.validation.mean, one.validation.standard_error)]);
  if (one.edit) parts.push(edited(one));
  if (one.gain) parts.push(gained(one.gain));
  if (one.hit) parts.push("a real gain");
  if (one.hypothesis) parts.push(`expected: ${one.hypothesis}`);
  const settings = Object.entries(one.settings ?? {});
  if (settings.length) parts.push(`set ${settings.map(([name, value]) => `${name} = ${value}`).join(", ")}`);
  if (one.same_as !== null) parts.push(link(`#/run/${run.id}/${one.same_as}`, `the same checkpoint as ${one.same_as}`));
  if (one.used) parts.push(`${short(one.used.tokens)} tokens since the one before${one.used.cost === null ? "" : `, ${money(one.used.cost)}`}`);
  if (one.seconds !== null) parts.push(`played in ${duration(one.seconds)}`);
  return parts.flatMap((part, place) => (place ? [" · ", part] : [part]));
}

async function change(run, one) {
  const changed = await load(`run/${run.id}/submission/${one.index}`);
  if (changed.files === null) return nothing("The checkpoint is not in this record.", "Records that were moved without their folder checkpoints/ have no changes to show.");
  if (!changed.files.length) return nothing("No file differs from the submission before.", "It was submitted as it was.");
  return [...changed.files.map(diff), changed.more_files ? h("p", { class: "soft" }, `${count(changed.more_files)} more files differ.`) : null];
}

const ROWS = 400;

function diff(file) {
  const body = h("div", { class: "code", tabindex: "0", role: "region", "aria-label": `Change of ${file.path}` });
  let drawn = 0;
  const more = h("button", { type: "button", class: "plain", click: () => draw() }, "Show more");
  function draw() {
    const next = file.rows.slice(drawn, drawn + ROWS);
    drawn += next.length;
    body.append(...next.map(([sign, before, after, text]) => (sign === "@" ? h("div", { class: "gap" }, "⋯")
      : h("div", { class: `row ${sign === "+" ? "plus" : sign === "-" ? "minus" : ""}` },
        h("span", { class: "no" }, before ?? ""), h("span", { class: "no" }, after ?? ""), h("span", { class: "sign" }, sign === "-" ? "−" : sign), h("span", { class: "text" }, text)))));
    more.hidden = drawn >= file.rows.length;
  }
  draw();
  return h("article", { class: "file" },
    h("header", null, h("code", null, file.path), h("span", { class: "soft" }, file.kind === "changed" ? "" : file.kind), file.added === undefined ? null : h("span", { class: "tally" }, h("span", { class: "plus" }, `+${file.added}`), " ", h("span", { class: "minus" }, `−${file.removed}`))),
    file.note ? h("p", { class: "soft" }, file.note) : null, file.rows.length ? [body, more] : null, file.cut ? h("p", { class: "soft" }, `${count(file.cut)} more lines are not shown here.`) : null);
}

export function text(found, label) {
  if (!found) return null;
  return h("div", { class: "printed" }, label ? h("p", { class: "label" }, label) : null, h("pre", { tabindex: "0" }, found.text),
    found.cut ? h("p", { class: "soft" }, `The first ${count(found.text.length)} of ${count(found.size)} bytes.`) : null);
}

async function feedback(run, one) {
  const { feedback: shown } = await load(`run/${run.id}/submission/${one.index}`);
  if (!shown) return nothing(one.playing ? "It is being played: there is no feedback yet." : "The feedback is not in this record.", one.playing ? "This page shows it as soon as the agent has it." : "It lies in workspace/feedback/ where the record is whole.");
  const noisy = shown.episodes.filter((episode) => episode.stdout || episode.stderr || episode.error);
  return [
    shown.errors ? [h("h3", null, "errors.txt"), text(shown.errors)] : null,
    shown.summary ? [h("h3", null, "summary.json"), summaryTable(shown.summary)] : null,
    noisy.length ? h("h3", null, "What the policy printed") : h("p", { class: "soft" }, "The policy printed nothing."),
    ...noisy.map((episode, place) => h("details", { open: place === 0 || Boolean(episode.error && place < 4) }, h("summary", null, h("code", null, episode.name), h("span", { class: "soft" }, ` case ${episode.case}`), episode.error ? h("span", { class: "tag bad" }, "failed") : null),
      text(episode.error, "error.txt"), text(episode.stdout, "stdout.txt"), text(episode.stderr, "stderr.txt"))),
    shown.more_episodes ? h("p", { class: "soft" }, `${count(shown.more_episodes)} more episodes lie in ${shown.directory}.`) : null,
  ].flat(2);
}

function summaryTable(summary) {
  return h("dl", { class: "summary" }, Object.entries(summary).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, plain(value)))));
}

function plain(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return value.length > 24 ? `${value.slice(0, 24).map(plain).join(", ")}, … (${value.length})` : value.map(plain).join(", ") || "none";
  if (typeof value === "object") return Object.entries(value).slice(0, 24).map(([name, part]) => `${name} ${plain(part)}`).join(", ");
  return typeof value === "number" && !Number.isInteger(value) ? number(value, 4) : String(value);
}

async function transcript(run, one, body, current) {
  const first = await load(`run/${run.id}/transcript/0`);
  if (!first.pages) return nothing("This run has no transcript.", "Built-in agents such as the tuner say nothing; programs and models do.");
  const at = first.submissions[one.index];
  const place = h("div", { class: "transcript" });
  const bar = h("div", { class: "pager" });
  async function show(page) {
    const shown = page === 0 ? first : await load(`run/${run.id}/transcript/${page}`);
    if (!current()) return;
    place.replaceChildren(...shown.entries.map((entry) => said(entry, one.index)));
    const step = (to, label) => h("button", { type: "button", class: "plain", disabled: to < 0 || to >= shown.pages, click: () => show(to) }, label);
    bar.replaceChildren(step(page - 1, "Earlier"), h("span", { class: "soft" }, `page ${page + 1} of ${shown.pages}`), step(page + 1, "Later"));
    const here = place.querySelector(".here");
    body.scrollTop = 0;
    if (here) body.scrollTop = here.offsetTop - 90;
  }
  body.replaceChildren(at === undefined ? h("p", { class: "note" }, "Where in it this submission was made is not known: its lines have no times.") : "", bar, place);
  await show(at ?? 0);
  return null;
}

function said(entry, index) {
  if (entry.role === "submission") {
    return h("div", { class: entry.submission === index ? "submitted here" : "submitted" }, `submission ${entry.submission}`);
  }
  return h("div", { class: `said ${["assistant", "user", "tool"].includes(entry.role) ? entry.role : ""}` },
    entry.role || entry.time ? h("div", { class: "who" }, entry.role, entry.time ? h("span", { class: "soft" }, ` ${entry.time.slice(11, 19)}`) : null) : null,
    h("pre", null, entry.text), entry.cut ? h("p", { class: "soft" }, `${count(entry.cut)} more characters`) : null);
}

const HIDDEN = { held_out: "Held-out", post_hoc: "Held-out, played afterwards (post-hoc)", validation: "Validation" };

async function episodes(run, one) {
  const { hidden, films } = await load(`run/${run.id}/submission/${one.index}`);
  const filmed = new Set(films);
  const rows = one.episodes.map((episode, place) => ({ place, case: one.cases[place], name: `train-${one.index}-${place}`, ...episode, played: Boolean(episode) })).filter((row) => row.played);
  const parts = [h("h3", null, "Train"), rows.length ? episodeTable(run, rows, "Train", filmed) : nothing("No episode of it was played.", one.error ?? "A policy that can’t be loaded plays none.")];
  for (const [split, title] of Object.entries(HIDDEN)) {
    if (hidden[split]?.length) parts.push(h("h3", null, title), episodeTable(run, hidden[split], title, filmed));
  }
  if (run.stage === "open") parts.push(h("p", { class: "soft" }, "Hidden episodes are played and shown when the agent is gone."));
  else if (run.stage === "finished" && run.selected !== null && one.status === "ok" && !hidden.held_out?.length && !hidden.post_hoc?.length) parts.push(h("p", { class: "soft" }, "It did not play the held-out cases, as another was selected; evopolicygym post-hoc plays them."));
  return parts;
}

function episodeTable(run, rows, split, filmed) {
  const known = rows.some((r) => (r.length ?? null) !== null);
  return table([
    { name: "episode", text: true, value: (r) => r.place, cell: (r) => link(`#/episode/${run.id}/${r.name}`, r.name) },
    { name: "case", value: (r) => r.case },
    { name: "return", value: (r) => finite(r.return), cell: (r) => number(r.return) },
    ...(known ? [{ name: "steps", value: (r) => r.length },
    { name: "end", text: true, value: (r) => (r.terminated ? "terminated" : "truncated"), cell: (r) => (r.failure ? h("span", { class: "failed" }, `failed: ${r.failure.replaceAll("_", " ")}`) : r.terminated ? "terminated" : "truncated") }] : []),
    ...(rows.some((r) => filmed.has(r.name)) ? [{ name: "film", text: true, value: (r) => Number(filmed.has(r.name)), cell: (r) => (filmed.has(r.name) ? "▶ film" : "–") }] : []),
    ...(rows.some((r) => (r.success ?? null) !== null) ? [{ name: "success", text: true, value: (r) => Number(r.success), cell: (r) => (r.success === null ? "–" : r.success ? "yes" : "no") }] : []),
  ], rows, { caption: `${split} episodes` });
}
