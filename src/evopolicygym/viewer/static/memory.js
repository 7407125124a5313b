// What a page remembers of its reader: each entry of the browser's history keeps how far it was scrolled and how its
// tables were sorted, so that Back leads to what was left.

const STORE = "remembered";
const MOST_ENTRIES = 200;
let entries = {};
let own = {};
try { entries = JSON.parse(sessionStorage.getItem(STORE)) ?? {}; } catch { /* then a reload forgets */ }

// Turns to the history's present entry; returns whether it was there before.
export function enterPage() {
  let id = history.state?.id;
  const known = Boolean(id && Object.hasOwn(entries, id));
  if (!id) {
    id = `${Date.now()}-${Math.random().toString(36).slice(2)}`;
    history.replaceState({ id }, "");
  }
  if (!known) entries[id] = {};
  own = entries[id];
  return known;
}

export function recall(name) {
  return Object.hasOwn(own, name) ? own[name] : null;
}

export function remember(name, value) {
  own[name] = value;
}

// Another address for the page that is shown: no entry of its own in the history.
export function readdress(address) {
  history.replaceState(history.state, "", address);
}

globalThis.addEventListener?.("pagehide", () => {
  const last = Object.entries(entries).slice(-MOST_ENTRIES);
  try { sessionStorage.setItem(STORE, JSON.stringify(Object.fromEntries(last))); } catch { /* a reload forgets */ }
});
