// The colour and shape of each entry, the same on every page: by the order in which entries first played here, then
// that of the shipped tables.

import { load } from "./data.js";

export const COLOURS = 7;
const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "down", "bar", "plus"]; // eight beside seven colours: 56 entries look different

// Returns what gives an entry's {colour, shape} by its name; those that nothing names come last.
export async function entryLooks(settings) {
  const { entries } = await load("runs");
  const order = new Map();
  const place = (name) => {
    if (!order.has(name)) order.set(name, order.size);
    return order.get(name);
  };
  for (const name of [...entries, ...(settings.shipped ?? []).flatMap((table) => table.entries)]) place(name);
  return (name) => ({ colour: place(name) % COLOURS, shape: SHAPES[place(name) % SHAPES.length] });
}
