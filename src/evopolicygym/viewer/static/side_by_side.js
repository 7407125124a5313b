// Films of one case by several runs, side by side, under one slider.

import { h, put, link, number, count } from "./dom.js";
import { names } from "./data.js";
import { filmOf } from "./film.js";

const TITLES = { held_out: "held-out", validation: "validation", train: "train" };

export function sideBySide(cases) {
  const place = h("div");
  const choice = h("select", { "aria-label": "Case", change: () => show(Number(choice.value)) },
    cases.map((one, at) => h("option", { value: at }, `${TITLES[one.split]} case ${one.case} (${one.films.length} films)`)));
  function show(at) {
    put(place, together(cases[at].films));
  }
  show(0);
  return h("div", null, h("p", { class: "controls" }, choice), place);
}

function together(shown) {
  const last = Math.max(0, ...shown.map(({ film }) => film.length ?? 0));
  const longest = shown.findIndex(({ film }) => (film.length ?? 0) === last);
  const range = h("input", { type: "range", min: 0, max: last, step: 1, "aria-label": "Step of all films", input: () => { where(); films.forEach((film) => film.show(Number(range.value))); } });
  range.value = 0;
  const position = h("output", { class: "where" });
  const where = () => { position.textContent = `step ${count(Number(range.value))} of ${count(last)}`; };
  const films = shown.map(({ run, name, film, agent }, at) => filmOf(`film/${run}/${encodeURIComponent(name)}.mp4`, film, {
    label: `Film of ${agent}`,
    reached: (step) => { if (at === longest) { range.value = step; where(); } },
    changed: () => { play.textContent = films.some((one) => !one.element.paused) ? "Pause all" : "Play all"; },
  }));
  const play = h("button", { type: "button", class: "plain", click: () => {
    const playing = films.some((one) => !one.element.paused);
    for (const one of films) if (one.element.paused !== playing) one.toggle();
  } }, "Play all");
  where();
  return [h("div", { class: "scrub" }, play, range, position),
    h("div", { class: "side" }, shown.map((one, at) => h("figure", null, films[at].element,
      h("figcaption", null, episodeLink(one), h("span", { class: "soft" }, ` seed ${one.seed}, submission ${one.submission}, return ${number(one.episode_return)}`),
        one.film.same === false ? h("span", { class: "tag bad" }, "differs from the record") : null))))];
}

// A link where the episode's steps are kept; its name until that is known, or where they are not.
function episodeLink({ run, name, agent }) {
  const place = h("span", null, agent);
  names(run).then((kept) => { if (!kept || kept.has(`run/${run}/episode/${name}`)) put(place, link(`#/episode/${run}/${name}`, agent)); }, () => {});
  return place;
}
