// An entry of a transcript: a message with its tool calls, folded, or the submission that came of what was said.

import { h, link, number, count, short, money, plusMinus } from "./dom.js";

const MOST_LINES = 40; // a longer text that no model wrote is folded
const FIRST_LINE = 140;

// {run, index: the submission whose tab this is, address(entry): of a link to it, open: whether calls are unfolded, query}
export function message(entry, view) {
  if (entry.role === "submission") return submitted(entry, view);
  const known = ["assistant", "user", "tool"].includes(entry.role) ? entry.role : "";
  return h("div", { class: `said ${known}`, "data-at": entry.at, tabindex: "-1" }, who(entry, view),
    entry.reasoning ? folded(["reasoning: ", h("span", { class: "soft" }, firstLine(entry.reasoning.text))], entry.reasoning, view) : null,
    entry.text ? said(entry, view) : null,
    (entry.calls ?? []).map((call) => calling(call, view)),
    entry.calls_left_out ? h("p", { class: "soft" }, `${count(entry.calls_left_out)} more calls`) : null,
    (entry.results ?? []).map((result) => folded(["result of an earlier call: ", h("span", { class: "soft" }, firstLine(result.text))], result, view)));
}

// All texts of an entry that can be searched.
export function textsOf(entry) {
  const calls = (entry.calls ?? []).flatMap((call) => [`${call.name} ${call.text}`, call.result?.text ?? ""]);
  return [entry.reasoning?.text ?? "", entry.text, ...calls, ...(entry.results ?? []).map((result) => result.text)];
}

// A text with each place of a query marked.
export function marked(text, query) {
  if (!query) return [text];
  const parts = [], small = text.toLowerCase();
  let from = 0;
  for (let at = small.indexOf(query); at !== -1; at = small.indexOf(query, from)) {
    parts.push(text.slice(from, at), h("mark", null, text.slice(at, at + query.length)));
    from = at + query.length;
  }
  return [...parts, text.slice(from)];
}

function who(entry, { address }) {
  const usage = entry.usage ? [`${short(entry.usage.input_tokens)} tokens in`, entry.usage.output_tokens === null ? null : `${short(entry.usage.output_tokens)} out`, entry.usage.cost_usd === null ? null : money(entry.usage.cost_usd, entry.usage.cost_is_lower_bound)] : [];
  return h("div", { class: "who" }, h("span", null, entry.role || "output"), entry.time ? h("span", { class: "soft" }, entry.time.slice(11, 19)) : null,
    h("span", { class: "soft usage" }, usage.filter(Boolean).join(", ")),
    h("a", { class: "anchor", href: address(entry), "aria-label": `Link to this ${entry.role || "output"} at ${count(entry.at)}`, title: "Link to this message" }, "#"));
}

function said(entry, view) {
  const lines = entry.text.split("\n").length;
  if (entry.role === "assistant" || lines <= MOST_LINES) return written(entry, view);
  return folded([firstLine(entry.text), h("span", { class: "soft" }, `, ${count(lines)} lines`)], entry, view);
}

function calling(call, view) {
  const state = !call.result ? h("span", { class: "soft" }, "no result yet") : call.result.is_error ? h("span", { class: "tag bad" }, "failed") : null;
  return h("details", { class: "call", open: view.open || found(`${call.name} ${call.text}`, view) || found(call.result?.text, view) },
    h("summary", null, h("code", null, call.name), " ", h("span", { class: "soft" }, firstLine(call.text)), " ", state),
    written(call, view), call.result ? h("div", { class: "result" }, written(call.result, view)) : null);
}

function folded(summary, text, view) {
  return h("details", { open: view.open || found(text.text, view) }, h("summary", null, summary), written(text, view));
}

function found(text, { query }) {
  return Boolean(query && text?.toLowerCase().includes(query));
}

function written({ text, cut }, { query }) {
  return [text ? h("pre", null, marked(text, query)) : null, cut ? h("p", { class: "soft" }, `${count(cut)} more characters`) : null];
}

function firstLine(text) {
  const line = text.split("\n").find((own) => own.trim()) ?? "";
  return line.length > FIRST_LINE ? `${line.slice(0, FIRST_LINE)}…` : line;
}

function submitted(entry, { run, index }) {
  const one = run.submission_rows[entry.submission];
  const parts = [];
  if (one.train_mean !== null) parts.push(`train ${number(one.train_mean)}`);
  if (one.validation_mean !== null) parts.push(["validation ", plusMinus(one.validation_mean, one.validation_standard_error)]);
  if (one.published_at === null) parts.push("being played");
  else if (one.status !== "ok") parts.push(one.status.replaceAll("_", " "));
  if (one.is_selected) parts.push("selected");
  else if (one.is_new_best) parts.push("new best");
  return h("div", { class: entry.submission === index ? "submitted here" : "submitted", "data-at": entry.at },
    h("span", null, link(`#/run/${run.id}/${entry.submission}/change`, `submission ${entry.submission}`), parts.map((part) => [" · ", part])));
}
