// What an audit found in runs: beside each entry of a ranking and in a line under it, and on a run's page.
//
// Three things are kept apart: a run that was audited, one whose conversation couldn't be read, and one that wasn't audited.

import { h, link, plural, section, table } from "./dom.js";
import { load } from "./data.js";

// Returns each run's findings in short by its id; null where there is no audit here.
export async function audited() {
  return load("audit").then(({ runs }) => runs).catch(() => null);
}

// Counts over an entry's runs: how many there are in each state, how many have serious findings, and of how many findings.
function tally(audit, runs) {
  const found = { audited: 0, unread: 0, missing: 0, serious: 0, findings: 0 };
  for (const id of runs) {
    const own = Object.hasOwn(audit, id) ? audit[id] : null;
    found[own ? own.state : "missing"] += 1;
    const serious = own?.counts.serious ?? 0;
    found.findings += serious;
    if (serious) found.serious += 1;
  }
  return found;
}

const runsOf = (entry) => Object.values(entry.tasks).flatMap((task) => task.runs);

// A column of a ranking; before the audit is there, its cells say so. Entries without runs here have nothing to audit.
export function conductColumn(audit) {
  const of = (entry) => (audit ? tally(audit, runsOf(entry)) : null);
  return {
    name: "serious findings", title: "Runs in which the audit found something serious, of those whose conversation could be read",
    value: (entry) => of(entry)?.serious ?? null,
    cell: (entry) => {
      if (!runsOf(entry).length) return "–";
      const found = of(entry);
      return found ? conductCell(found) : h("span", { class: "soft" }, "…");
    },
  };
}

function conductCell({ audited: read, unread, missing, serious }) {
  const parts = [];
  if (serious) parts.push(h("span", { class: "tag bad first" }, `${serious} of ${plural(read + unread, "run")}`));
  else if (read) parts.push("none");
  if (unread) parts.push(h("span", { class: "tag" }, `${read || serious ? `${unread} ` : ""}not read`));
  if (missing) parts.push(h("span", { class: "tag" }, `${read || unread ? `${missing} ` : ""}not audited`));
  return parts;
}

// The lines under a ranking: entries with serious findings, and those of which not all could be read.
export function conductLines(audit, entries) {
  if (!audit) return h("p", { class: "note", role: "status" }, "What agents did is being audited …");
  const all = entries.map((entry) => ({ entry: entry.entry, ...tally(audit, runsOf(entry)) }));
  const line = (chosen, begin, words) => (chosen.length ? h("p", { class: begin ? "conduct serious" : "conduct" }, ...words(chosen)) : null);
  const named = (chosen, text) => chosen.map((one) => `${one.entry} (${text(one)})`).join("; ");
  return h("div", { class: "conducts" },
    line(all.filter((one) => one.serious), true, (chosen) => [h("strong", null, "Serious findings"), ` in what agents did: ${named(chosen, (one) => `${one.findings} in ${plural(one.serious, "run")}`)}. A run’s page shows them.`]),
    line(all.filter((one) => one.unread), false, (chosen) => [`Could not be audited, as no conversation could be read: ${named(chosen, (one) => plural(one.unread, "run"))}.`]),
    line(all.filter((one) => one.missing), false, (chosen) => [`Not audited: ${named(chosen, (one) => plural(one.missing, "run"))}.`]));
}

// A run's findings, with links to the submission or the message that each is in.
export function findingsOf(run, audit) {
  if (!audit) return run.stage === "finished" ? section("Audit", null, h("p", { class: "soft" }, "It was not audited.")) : null;
  const rows = audit.findings;
  const note = audit.state === "unread" ? "What the agent did could not be read, so that nothing found here says nothing about it." : `Read: ${plural(audit.commands, "command")} and ${plural(audit.programs, "program")}. A finding is evidence for a person to read, and no verdict.`;
  return section("Audit", note,
    rows.length ? table([
      { name: "grade", text: true, value: (r) => ["note", "look", "serious"].indexOf(r.grade), cell: (r) => h("span", { class: r.grade === "serious" ? "tag bad first" : "tag first" }, r.grade) },
      { name: "kind", text: true, value: (r) => r.detector, cell: (r) => r.detector.replaceAll("_", " ") },
      { name: "what", text: true, value: (r) => r.what, cell: (r) => h("span", { class: "wrapped" }, r.what, r.times > 1 ? h("span", { class: "soft" }, ` ${r.times} times`) : null) },
      { name: "words", text: true, value: (r) => r.words, cell: (r) => h("code", { class: "wrapped" }, r.words) },
      { name: "where", text: true, value: (r) => r.location, cell: (r) => locationOf(run, r) },
    ], rows, { caption: "Findings", most: 20 }) : h("p", null, audit.state === "unread" ? "Nothing was found in the files that it left." : "Nothing was found."),
    audit.notes.length ? h("ul", { class: "notes" }, audit.notes.map((text) => h("li", null, text))) : null,
    audit.why && !audit.notes.length ? h("p", { class: "note" }, audit.why) : null);
}

function locationOf(run, finding) {
  if (finding.submission === null) return h("span", { class: "wrapped" }, finding.location);
  const tab = finding.transcript_at === null ? "change/source" : `transcript/${finding.transcript_at}`;
  return h("span", { class: "wrapped" }, link(`#/run/${run.id}/${finding.submission}/${tab}`, `submission ${finding.submission}`), h("span", { class: "soft" }, ` ${finding.location}`));
}

// Serious findings in a line for the top of a run's page, with a link to all of them.
export function seriousIn(audit) {
  const serious = audit?.counts.serious ?? 0;
  if (!serious) return null;
  return h("p", { class: "conduct serious" }, h("strong", null, plural(serious, "serious finding")), ` in what the agent did: ${audit.findings[0].what}${serious > 1 ? ", and others" : ""}. The audit is below.`);
}
