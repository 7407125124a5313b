// The episodes of a submission, each with a link to its steps where they are kept.

import { h, link, number, nothing, table, finite, ending } from "./dom.js";
import { load, names } from "./data.js";
import { region } from "./region.js";

export async function episodesTab(run, one) {
  const kept = await names(run.id);
  const place = region(([now, shown, stage]) => parts({ ...run, stage }, now, shown, (name) => !kept || kept.has(`run/${run.id}/episode/${name}`)));
  const fill = async (found, now) => {
    const { hidden, films } = await load(`run/${run.id}/submission/${now.submission}`);
    place.show([now, { hidden, films }, found.stage]);
  };
  await fill(run, one);
  return { element: place.element, refresh: fill };
}

const HIDDEN = { held_out: "Held-out", post_hoc: "Held-out, played afterwards (post-hoc)", validation: "Validation" };

function parts(run, one, { hidden, films }, isKept) {
  const filmed = new Set(films);
  const rows = one.episode_rows.map((episode) => ({ name: `train-${one.submission}-${episode.position}`, ...episode }));
  const found = [h("h3", null, "Train"), rows.length ? episodeTable(run, rows, "Train", filmed, isKept) : nothing("No episode of it was played.", one.error ?? "A policy that can’t be loaded plays none.")];
  for (const [split, title] of Object.entries(HIDDEN)) {
    if (hidden[split]?.length) found.push(h("h3", null, title), episodeTable(run, hidden[split], title, filmed, isKept));
  }
  if (run.stage === "open") found.push(h("p", { class: "soft" }, "Hidden episodes are played and shown when the agent is gone."));
  else if (run.stage === "finished" && run.selected_submission !== null && one.status === "ok" && !hidden.held_out?.length && !hidden.post_hoc?.length) found.push(h("p", { class: "soft" }, "It did not play the held-out cases, as another was selected; evopolicygym post-hoc plays them."));
  return found;
}

function episodeTable(run, rows, split, filmed, isKept) {
  const known = rows.some((r) => (r.length ?? null) !== null);
  return table([
    { name: "episode", text: true, value: (r) => r.position, cell: (r) => (isKept(r.name) ? link(`#/episode/${run.id}/${r.name}`, r.name) : h("span", { title: "Its steps were left out when these pages were written" }, r.name)) },
    { name: "case", value: (r) => r.case },
    { name: "return", value: (r) => finite(r.episode_return), cell: (r) => number(r.episode_return) },
    ...(known ? [{ name: "steps", value: (r) => r.length },
    { name: "end", text: true, value: ending, cell: (r) => (r.failure ? h("span", { class: "failed" }, `failed: ${r.failure.replaceAll("_", " ")}`) : ending(r)) }] : []),
    ...(rows.some((r) => filmed.has(r.name)) ? [{ name: "film", text: true, value: (r) => Number(filmed.has(r.name)), cell: (r) => (filmed.has(r.name) ? "▶ film" : "–") }] : []),
    ...(rows.some((r) => (r.success ?? null) !== null) ? [{ name: "success", text: true, value: (r) => Number(r.success), cell: (r) => (r.success === null ? "–" : r.success ? "yes" : "no") }] : []),
  ], rows, { caption: `${split} episodes` });
}
