// The lineage of a run: each submission at its worth, with a line to what it was made of.

import { h, s, finite } from "./dom.js";
import { chart, domain, legend, mark, path, tell } from "./chart.js";

export const EDITS = {
  structural: ["square", "structural edit"], parametric: ["circle", "parametric edit"], cosmetic: ["plus", "cosmetic edit"],
  revert: ["down", "revert"], repair: ["triangle", "repair"], none: ["bar", "no change"],
};

// The starter stands at uniform random's mean; what is worth nothing that is known, below all others.
export function lineage(run, choose, lines) {
  const known = run.submission_rows.map((one) => finite(one.validation_mean)).filter((value) => value !== null);
  const root = finite(run.random_anchor?.mean) ?? (known.length ? Math.min(...known) : 0);
  const [low, high] = domain([root, ...known], 0.1);
  const height = (one) => finite(one.validation_mean) ?? low;
  const drawing = chart({
    role: "group", label: `Lineage of ${run.submission_rows.length} submissions: validation mean against train episodes spent`, height: 260,
    x: { domain: [0, run.budget], title: "train episodes spent", whole: true }, y: { domain: [low, high], title: "validation mean" },
    rows: () => [["submission", "parent", "spent", "validation", "edit", "gain"], ...run.submission_rows.map((one) => [one.submission, one.parent, one.spent, one.validation_mean, one.edit_kind, one.is_hit])],
    draw: (frame) => {
      const place = (index) => (index === -1 ? [frame.x(0), frame.y(root)] : [frame.x(run.submission_rows[index].spent), frame.y(height(run.submission_rows[index]))]);
      const edges = run.submission_rows.filter((one) => finite(one.parent) !== null)
        .map((one) => path([place(one.parent), place(one.submission)], { class: one.is_declared ? "edge declared" : "edge" }));
      const nodes = run.submission_rows.map((one) => {
        const [x, y] = place(one.submission);
        const group = s("a", { class: "node", href: `#/run/${run.id}/${one.submission}`, "aria-label": lines(one).join(", "), click: (event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          choose(one.submission);
        } });
        group.append(s("circle", { cx: x, cy: y, r: 10, class: "target" }));
        if (one.is_hit) group.append(s("circle", { cx: x, cy: y, r: 8, class: "ring" }));
        group.append(one.status === "ok" || one.published_at === null ? mark(EDITS[one.edit_kind]?.[0] ?? "circle", x, y, 4.2, { class: `edit ${one.edit_kind ?? "none"}` }) : mark("cross", x, y, 4, { class: "failure" }));
        return tell(group, lines(one));
      });
      const starter = tell(s("g", null, mark("diamond", ...place(-1), 4, { class: "starter" })), ["the starter policy"]);
      return [...edges, starter, ...nodes];
    },
  });
  return h("details", { class: "lineage", open: true }, h("summary", null, "Lineage"), drawing, legend([
    { shape: "diamond", className: "starter", text: "starter" },
    ...Object.entries(EDITS).map(([edit, [shape]]) => ({ shape, className: `edit ${edit}`, text: edit })),
    { shape: "circle", className: "ring", text: "a real gain" }, { shape: "cross", className: "failure", text: "not loaded" },
    { line: "edge", text: "made of" }, { line: "edge declared", text: "made of, as the agent says" },
  ]));
}
