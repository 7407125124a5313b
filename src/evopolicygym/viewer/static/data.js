// Documents by name, and news of those that change. A document is fetched when it is looked at.

import { isKept, loadKept, namesKept } from "./kept.js";

export async function load(name) {
  if (isKept) return loadKept(name);
  let answer;
  try {
    answer = await fetch(`data/${name}.json`, { cache: "no-cache" });
  } catch {
    throw new Error("The viewer doesn't answer any more. Start it again: evopolicygym view RUNS");
  }
  const content = await answer.json().catch(() => ({ error: `The viewer answered ${answer.status} without a document.` }));
  if (!answer.ok) throw new Error(content.error ?? `The viewer answered ${answer.status}.`);
  return content;
}

// Names of a run's documents where not all are there, as in pages on a disk; null where all can be had.
export async function names(run) {
  return isKept ? namesKept(run) : null;
}

const PAUSE_MS = 2000;

// Calls back whenever a document's pulse has changed; returns what ends it. A page that nobody sees asks nothing, and
// documents that are kept with a page stay as they are.
export function follow(pulse, changed) {
  if (isKept) return () => {};
  let ended = false;
  let last = null;
  async function look() {
    if (ended) return;
    if (!document.hidden) {
      try {
        const { tag } = await load(pulse);
        if (!ended && last !== null && tag !== last) await changed();
        last = tag;
      } catch { /* it may come back */ }
    }
    if (!ended) setTimeout(look, PAUSE_MS);
  }
  look();
  return () => { ended = true; };
}
