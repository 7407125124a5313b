// Which words of two lines differ.

const MOST_WORDS = 240;
const LEAST_SHARED = 0.3; // lines that share less have nothing to do with each other

// Returns each line as [text, differs] in turn; neither differs in part where they share too little.
export function wordsOf(before, after) {
  const [old, fresh] = [before, after].map((line) => line.match(/\w+|\s+|[^\w\s]/g) ?? []);
  if (old.length > MOST_WORDS || fresh.length > MOST_WORDS) return [[[before, false]], [[after, false]]];
  const [kept, size] = shared(old, fresh);
  if (size < LEAST_SHARED * Math.max(before.trim().length, after.trim().length)) return [[[before, false]], [[after, false]]];
  return [joined(old, new Set(kept.map(([i]) => i))), joined(fresh, new Set(kept.map(([, j]) => j)))];
}

// A longest sequence of shared words as pairs of places, and how many letters it has.
function shared(old, fresh) {
  const best = Array.from({ length: old.length + 1 }, () => new Uint32Array(fresh.length + 1));
  for (let i = old.length - 1; i >= 0; i -= 1) for (let j = fresh.length - 1; j >= 0; j -= 1) {
    best[i][j] = old[i] === fresh[j] ? best[i + 1][j + 1] + old[i].trim().length + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  }
  const pairs = [];
  let letters = 0;
  for (let i = 0, j = 0; i < old.length && j < fresh.length;) {
    if (old[i] === fresh[j]) { pairs.push([i, j]); letters += old[i].trim().length; i += 1; j += 1; }
    else if (best[i + 1][j] >= best[i][j + 1]) i += 1;
    else j += 1;
  }
  return [pairs, letters];
}

function joined(words, kept) {
  const found = [];
  words.forEach((word, place) => {
    const differs = !kept.has(place);
    if (found.length && found.at(-1)[1] === differs) found.at(-1)[0] += word;
    else found.push([word, differs]);
  });
  return found;
}
