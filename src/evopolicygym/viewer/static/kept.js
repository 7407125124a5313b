// Documents that `evopolicygym report` wrote beside a page, or into it: they are had without a server.
//
// A page that is served has none of this. A document is JSON, gzipped, in base64: beside the page in a script that hands
// it over, as pages from a disk may fetch nothing; in the page as an element that holds its text.

const embedded = document.getElementById("kept");
const kept = embedded ? JSON.parse(embedded.textContent) : null;
const coming = new Map(); // by name: documents whose script is awaited
const contents = new Map(); // by run: which documents of it there are
const addresses = kept && globalThis.trustedTypes?.createPolicy("documents", { createScriptURL: (address) => address });

export const isKept = kept !== null;

globalThis.evopolicygymDocument = (name, text) => coming.get(name)?.done(text);

export async function loadKept(name) {
  if (name === "settings") return kept.settings;
  const plain = decodeURIComponent(name);
  const [kind, run] = plain.split("/");
  if (kind !== "run" && kind !== "compare") return unpacked(await packed(plain, one(plain, kept.common, kept.problems)));
  const { names, problems } = await contentsOf(run);
  return unpacked(await packed(plain, one(plain, names, problems)));
}

// Returns which documents of a run there are.
function contentsOf(run) {
  if (!kept.runs.includes(run)) throw new Error("There is no such run in these pages.");
  if (!contents.has(run)) contents.set(run, packed(`run/${run}/contents`, `data/run/${run}/contents.js`).then(unpacked));
  return contents.get(run);
}

export async function namesKept(run) {
  return new Set(Object.keys((await contentsOf(run)).names));
}

// Returns a document's address; throws what hindered its making, or that it was left out.
function one(name, addresses, problems) {
  if (Object.hasOwn(problems, name)) throw new Error(problems[name]);
  if (!Object.hasOwn(addresses, name)) throw new Error(kept.left_out);
  return addresses[name];
}

async function packed(name, address) {
  const inside = document.getElementById(`kept/${name}`);
  if (inside) return inside.textContent;
  if (!coming.has(name)) coming.set(name, handedOver(address));
  return coming.get(name).promise.finally(() => coming.delete(name));
}

function handedOver(address) {
  const found = {};
  found.promise = new Promise((done, failed) => {
    const script = document.createElement("script");
    const end = (message) => () => { script.remove(); failed(new Error(message)); };
    found.done = done;
    script.addEventListener("load", end(`${address} beside this page holds something else.`));
    script.addEventListener("error", end(`${address} is missing beside this page.`));
    script.src = addresses ? addresses.createScriptURL(address) : address;
    document.head.append(script);
  });
  return found;
}

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}
