// A film that is tied to a cursor: a frame for every so many steps, exactly as the film's own metadata tells it.

import { h } from "./dom.js";

export function frameOf(shot, step) {
  return step >= shot.length ? shot.frames - 1 : Math.floor(step / shot.steps_per_frame);
}

export function stepOf(shot, frame) {
  return Math.min(Math.max(0, frame) * shot.steps_per_frame, shot.length);
}

// Returns {element, tied, show(step), toggle(), end()}; reached(step) is called where the film itself moves on,
// changed(playing) where it begins and ends to play.
export function filmOf(src, shot, { reached = () => {}, changed = () => {}, label = "Film of the episode" } = {}) {
  const tied = Boolean(shot.frames);
  const element = h("video", { controls: true, muted: true, playsinline: true, preload: "auto", "aria-label": label, src });
  let wanted = 0; // the frame that the cursor asks for
  let ended = false;
  function arrived(seconds) {
    const frame = Math.min(shot.frames - 1, Math.floor(seconds * shot.fps + 0.01));
    if (frame === wanted || element.seeking) return;
    wanted = frame;
    reached(stepOf(shot, frame));
  }
  function follow(_, { mediaTime }) {
    if (ended) return;
    if (!element.paused) arrived(mediaTime);
    element.requestVideoFrameCallback(follow);
  }
  if (tied) {
    if ("requestVideoFrameCallback" in element) element.requestVideoFrameCallback(follow);
    else element.addEventListener("timeupdate", () => { if (!element.paused) arrived(element.currentTime); });
    element.addEventListener("seeked", () => { if (element.paused) arrived(element.currentTime); });
    element.addEventListener("ended", () => arrived(element.duration));
    element.addEventListener("loadedmetadata", () => seek());
  }
  element.addEventListener("play", () => changed(true));
  element.addEventListener("pause", () => {
    changed(false);
    if (tied && !ended) arrived(element.currentTime);
  });
  // Into the middle of the frame, where no rounding leads to another.
  function seek() {
    if (element.readyState > 0) element.currentTime = (wanted + 0.5) / shot.fps;
  }
  return {
    element, tied,
    show(step) {
      const frame = frameOf(shot, step);
      if (!tied || frame === wanted) return;
      wanted = frame;
      seek();
    },
    toggle() {
      if (!element.paused) { element.pause(); return; }
      if (element.ended || wanted >= shot.frames - 1) {
        wanted = 0;
        seek();
        reached(0);
      }
      element.play().catch(() => changed(false));
    },
    end() { ended = true; element.pause(); },
  };
}
