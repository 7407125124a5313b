// The figures and tables of the report that these pages lie in.

import { h, link, nothing } from "./dom.js";

export async function reportPage({ settings }) {
  const parts = settings.report ?? [];
  const names = [...new Set(parts.map((part) => part.name))];
  const element = h("div", null, h("div", { class: "head" }, h("div", null, h("h1", null, "Figures and tables"))),
    names.length ? names.map((name) => together(parts.filter((part) => part.name === name)))
      : nothing("No report lies beside these pages.", "Write one: ", h("code", null, "evopolicygym report runs -o report")));
  return { title: "Figures and tables", element, crumbs: [[null, "Figures and tables"]] };
}

// A figure and the table of the same name.
function together(parts) {
  return h("section", null, h("h2", null, parts[0].title), parts.map((part) => {
    const files = part.files.flatMap((file, place) => [place ? ", " : " ", link(file, file.slice(file.lastIndexOf(".") + 1))]);
    return [
      part.kind === "figure" ? h("a", { href: part.files[0] }, h("img", { src: part.files[0], alt: part.title, class: "figure", loading: "lazy" })) : null,
      h("p", { class: "note" }, ...words(`${part.caption} ${part.method}`), ` (${part.kind}:`, ...files, ")")];
  }));
}

// What stands between backticks is code.
function words(text) {
  return text.split("`").map((part, place) => (place % 2 ? h("code", null, part) : part));
}
