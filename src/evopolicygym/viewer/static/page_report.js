// The figures and tables of the report that these pages lie in.

import { h, link, section, nothing } from "./dom.js";

export async function reportPage({ settings }) {
  const parts = settings.report ?? [];
  const element = h("div", null, h("div", { class: "head" }, h("div", null, h("h1", null, "Figures and tables"))),
    parts.length ? parts.map(shown) : nothing("No report lies beside these pages.", "Write one: ", h("code", null, "evopolicygym report runs -o report")));
  return { title: "Figures and tables", element, crumbs: [[null, "Figures and tables"]] };
}

function shown(part) {
  const files = part.files.flatMap((file, place) => [place ? ", " : "", link(file, file.slice(file.lastIndexOf(".") + 1))]);
  return section(part.title, `${part.says} ${part.computed}`,
    part.kind === "figure" ? h("a", { href: part.files[0] }, h("img", { src: part.files[0], alt: part.title, class: "figure", loading: "lazy" })) : null,
    h("p", { class: "note" }, part.kind === "figure" ? "Figure: " : "Table: ", ...files));
}
