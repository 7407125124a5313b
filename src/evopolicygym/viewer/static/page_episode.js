// An episode over time: one cursor through film, pictures, rewards, actions and observations.

import { h, link, number, count, facts, fact, section, nothing, finite, duration, ending } from "./dom.js";
import { load, names } from "./data.js";
import { domain, scale } from "./chart.js";
import { filmOf } from "./film.js";
import { readdress } from "./memory.js";
import { picturesOf } from "./pictures.js";
import { text } from "./tab_feedback.js";

// Whole numbers without decimals.
const whole = (value) => (Number.isInteger(value) ? count(value) : number(value));
const ADDRESS_MS = 400; // browsers refuse more than 100 changes of an address in 30 s

export async function episodePage({ words: [id, name], asked }) {
  const [run, episode, kept] = await Promise.all([load(`run/${id}`), load(`run/${id}/episode/${encodeURIComponent(name)}`), names(id)]);
  const series = episode.series;
  const film = episode.film ? filmOf(`film/${id}/${encodeURIComponent(episode.name)}.mp4`, episode.film, { reached: (step) => player?.reached(step), changed: (playing) => player?.playing(playing) }) : null;
  const pictures = series?.pictures.length ? picturesOf(`run/${id}/episode/${encodeURIComponent(name)}`, series) : null;
  const player = series && series.t.length ? scrubber(series, film, pictures, { start: Number.parseInt(asked.get("step") ?? "", 10) || 0, address: `#/episode/${id}/${encodeURIComponent(name)}` }) : null;
  const back = episode.submission;
  const element = h("div", null,
    h("div", { class: "head" }, h("div", null, h("h1", null, `Episode ${episode.name}`), h("p", { class: "lead" }, `${run.agent} on ${run.task}, case ${episode.case} of ${episode.split.replace("_", "-")}`)),
      h("div", { class: "score" }, h("div", { class: "big" }, number(episode.episode_return)), h("div", { class: "soft" }, "return"))),
    facts(episode.post_hoc ? fact("known by", "post-hoc") : fact("steps", count(episode.length)), episode.post_hoc ? null : fact("end", ending(episode)), (episode.success ?? null) === null ? null : fact("success", episode.success ? "yes" : "no"),
      episode.post_hoc ? null : fact("took", duration(episode.seconds)), episode.actions_clipped ? fact("actions clipped", count(episode.actions_clipped)) : null,
      ...Object.entries(episode.reward_components).map(([part, value]) => fact(part, number(value))),
      fact("submission", link(`#/run/${id}/${back}/episodes`, back), episode.is_selected ? " (selected)" : ""), fact("episode", neighbours(run, id, episode, kept))),
    episode.failed ? h("div", { class: "trouble" }, h("p", null, h("strong", null, `The policy failed at step ${episode.failed.step} (${episode.failed.reason.replaceAll("_", " ")}). `), run.seed === null ? "" : "From there on random actions played."), text({ text: `${episode.failed.message}\n${episode.failed.traceback}` })) : null,
    episode.film?.same === false ? h("p", { class: "warning" }, `The film shows another episode than was recorded${episode.film.doubt ? `: ${episode.film.doubt}` : "."}`) : null,
    player ? player.element : [film ? h("div", { class: "stage" }, film.element) : null, nothing("The steps of this episode are not in the record.", episode.post_hoc ? "Post-hoc keeps the returns alone; evopolicygym film plays such a case again and shows it." : "Under the feedback profile “returns” none are kept; they can be played again with evopolicygym verify --replay.")],
    episode.stdout || episode.stderr ? section("What the policy printed", null, text(episode.stdout, "stdout.txt"), text(episode.stderr, "stderr.txt")) : null);
  return { title: `${episode.name} of ${run.agent}`, element, crumbs: [[`#/task/${encodeURIComponent(run.task)}`, run.task], [`#/run/${id}/${back ?? ""}`, run.run_id], [null, episode.name]], ready: () => player?.ready(), end: () => { player?.end(); film?.end(); }, keys: (event) => player?.keys(event) ?? false };
}

function neighbours(run, id, episode, kept) {
  const all = { train: run.submission_rows[episode.submission]?.episodes ?? 0, validation: run.validation_cases, held_out: run.held_out_cases }[episode.split];
  const name = (place) => episode.name.replace(/\d+$/, place);
  const step = (place, label, what) => (place >= 0 && place < all && (!kept || kept.has(`run/${id}/episode/${name(place)}`)) ? h("a", { href: `#/episode/${id}/${name(place)}`, "aria-label": what }, label) : h("span", { class: "soft" }, label));
  return [step(episode.position - 1, "‹ ", "Episode before"), `${episode.position + 1} of ${all}`, step(episode.position + 1, " ›", "Episode after")];
}

// The address follows the cursor: start is the step that it names at first, address what it begins with.
function scrubber(series, film, pictures, { start, address }) {
  const last = series.t.length - 1;
  const lines = [
    { title: "reward", unit: "per step", values: series.rewards }, { title: "return so far", unit: "", values: series.returns },
    ...series.actions.map((column) => ({ title: column.name ? `action ${column.name}` : "action", unit: "", values: column.values, steps: series.action_labels.length > 0, labels: series.action_labels, start: series.action_start })),
    ...series.components.map((column) => ({ title: column.name, unit: "part of the reward", values: column.values })),
    ...series.observations.map((column) => ({ title: column.name, unit: "observation", values: column.values })),
  ];
  const plots = lines.map((line) => plot(line, series, move));
  const range = h("input", { type: "range", min: 0, max: last, step: 1, "aria-label": "Step", input: () => move(Number(range.value)) });
  range.value = 0;
  const where = h("output", { class: "where" });
  const play = h("button", { type: "button", class: "plain", click: () => toggle() }, "Play");
  const quarters = [0, 0.25, 0.5, 0.75, 1].map((part) => series.t[0] + part * (series.t.at(-1) - series.t[0]));
  let at = 0;
  let timer = null;
  let written = 0; // when the address was last changed
  let ended = false;
  let writing = null; // the timer of its next change
  function write() {
    if (ended) return;
    clearTimeout(writing);
    writing = null;
    written = Date.now();
    readdress(at ? `${address}?step=${series.t[at]}` : address);
  }
  const copy = h("button", { type: "button", class: "plain", title: "Copy the address of this step", click: async () => {
    write();
    copy.textContent = await navigator.clipboard.writeText(location.href).then(() => "Copied", () => "Copy it from the address bar");
  } }, "Copy address");
  // Where the film itself moved on, it is not sent anywhere.
  function move(to, from = null) {
    copy.textContent = "Copy address";
    if (Date.now() - written >= ADDRESS_MS) queueMicrotask(write);
    else writing ??= setTimeout(write, ADDRESS_MS);
    show(to, from);
  }
  function show(to, from = null) {
    at = Math.max(0, Math.min(last, to));
    range.value = at;
    range.setAttribute("aria-valuetext", `step ${series.t[at]}`);
    where.textContent = `step ${count(series.t[at])} of ${count(series.steps)}`;
    for (const one of plots) one.move(at);
    pictures?.show(at);
    if (!from) film?.show(series.t[at]);
  }
  function placeOf(step) {
    let place = Math.max(0, Math.min(last, Math.floor(step / series.every)));
    while (place < last && series.t[place + 1] <= step) place += 1;
    return place;
  }
  const reached = (step) => move(placeOf(step), film);
  function toggle() {
    if (film?.tied) { film.toggle(); return; }
    if (timer) { clearInterval(timer); timer = null; play.textContent = "Play"; return; }
    if (at === last) move(0);
    play.textContent = "Pause";
    timer = setInterval(() => { if (at >= last) toggle(); else move(at + 1); }, 33);
  }
  const redraw = () => plots.forEach((one) => one.draw());
  const watch = new ResizeObserver(redraw);
  const holder = h("div", { class: "plots" }, plots.map((one) => one.element));
  window.addEventListener("themechange", redraw);
  return {
    element: h("div", null, h("div", { class: "scrub" }, play, range, where, copy),
      series.every > 1 ? h("p", { class: "note" }, `Of ${count(series.steps)} steps every ${series.every}th is drawn; the return counts them all.`) : null,
      h("div", { class: film || pictures ? "watched" : null }, film || pictures ? h("div", { class: "stage" }, film?.element, pictures?.element) : null,
        h("div", null, holder,
          h("div", { class: "timeaxis" }, h("div", { class: "ticks", "aria-hidden": "true" }, quarters.map((step) => h("span", null, count(step)))), h("div", { class: "axis-name" }, "step of the episode"))))),
    reached, playing: (now) => { play.textContent = now ? "Pause" : "Play"; },
    ready: () => { watch.observe(holder); redraw(); show(placeOf(start)); },
    end: () => { watch.disconnect(); if (timer) clearInterval(timer); clearTimeout(writing); writing = null; ended = true; window.removeEventListener("themechange", redraw); },
    keys: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) { move(at + step * (event.shiftKey ? 10 : 1)); return true; }
      if (event.key === " " && event.target.tagName !== "BUTTON") { toggle(); return true; }
      return false;
    },
  };
}

// One line over time, on a canvas: thousands of points cost nothing.
function plot(line, series, move) {
  const canvas = h("canvas", { role: "img", "aria-label": `${line.title} over time` });
  const cursor = h("div", { class: "cursor" });
  const value = h("span", { class: "now" });
  const box = h("div", { class: "canvas", pointermove: point, pointerdown: point }, canvas, cursor);
  const range = domain(line.values);
  const known = line.values.map(finite).filter((one) => one !== null);
  const [low, high] = known.length ? [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))] : [0, 0];
  const horizontal = (width) => scale([series.t[0], series.t.at(-1)], [2, width - 2]);
  function point(event) {
    const bounds = box.getBoundingClientRect();
    const step = horizontal(bounds.width).back(event.clientX - bounds.x);
    const about = Math.round(step / series.every), end = series.t.length - 1;
    const near = [about - 1, about, about + 1, end - 1, end].filter((place) => place >= 0 && place <= end);
    move(near.reduce((a, b) => (Math.abs(series.t[b] - step) < Math.abs(series.t[a] - step) ? b : a)));
  }
  return {
    element: h("figure", { class: "series" }, h("figcaption", null, h("span", { class: "title", title: line.title }, line.title), value, line.unit ? h("span", { class: "soft" }, line.unit) : null),
      h("div", { class: "limits", "aria-hidden": "true" }, h("span", null, whole(high)), h("span", null, low === high ? "" : whole(low))), box),
    draw() {
      const width = box.clientWidth, height = box.clientHeight, ratio = window.devicePixelRatio || 1;
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      const pen = canvas.getContext("2d");
      const look = getComputedStyle(box);
      pen.scale(ratio, ratio);
      const x = horizontal(width), y = scale(range, [height - 3, 3]);
      if (range[0] < 0 && range[1] > 0) {
        pen.strokeStyle = look.getPropertyValue("--faint");
        pen.beginPath(); pen.moveTo(0, y(0)); pen.lineTo(width, y(0)); pen.stroke();
      }
      pen.strokeStyle = look.getPropertyValue("--accent");
      pen.lineWidth = 1.4;
      pen.beginPath();
      let before = null;
      line.values.forEach((one, place) => {
        if (finite(one) === null) { before = null; return; }
        if (before === null) pen.moveTo(x(series.t[place]), y(one));
        else {
          if (line.steps) pen.lineTo(x(series.t[place]), y(before));
          pen.lineTo(x(series.t[place]), y(one));
        }
        before = one;
      });
      pen.stroke();
    },
    move(at) {
      const now = line.values[at];
      const label = now === null ? undefined : line.labels?.[now - (line.start ?? 0)];
      value.textContent = label ? `${now}: ${label}` : whole(now);
      cursor.style.transform = `translateX(${horizontal(box.clientWidth)(series.t[at]).toFixed(1)}px)`;
    },
  };
}
