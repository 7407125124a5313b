// What the agent could read of a submission.

import { h, number, count, nothing } from "./dom.js";
import { load } from "./data.js";
import { region } from "./region.js";

export async function feedbackTab(run, one) {
  const place = region(parts);
  const fill = async (now) => {
    const { feedback } = await load(`run/${run.id}/submission/${now.submission}`);
    place.show([feedback, now.published_at === null]);
  };
  await fill(one);
  return { element: place.element, refresh: (_, now) => fill(now) };
}

function parts([shown, playing]) {
  if (!shown) return nothing(playing ? "It is being played: there is no feedback yet." : "The feedback is not in this record.", playing ? "This page shows it as soon as the agent has it." : "It lies in workspace/feedback/ where the record is whole.");
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

export function text(found, label) {
  if (!found) return null;
  return h("div", { class: "printed" }, label ? h("p", { class: "label" }, label) : null, h("pre", { tabindex: "0" }, found.text),
    found.cut ? h("p", { class: "soft" }, `The first ${count(found.text.length)} of ${count(found.size)} bytes.`) : null);
}
