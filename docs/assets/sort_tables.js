// Sorts a table by a column when its heading is clicked: numbers by value ("-84.69", "1,007 ± 9", "87.5%"), else by text.
"use strict";

function valueOf(row, column) {
  const text = row.cells[column].textContent.trim();
  const found = /^-?[\d,]*\.?\d+(e[-+]?\d+)?/i.exec(text.replace("\u2212", "-"));
  return { text, number: found ? Number(found[0].replaceAll(",", "")) : NaN };
}

function sortBy(table, heading) {
  const column = heading.cellIndex;
  const descending = heading.getAttribute("aria-sort") !== "descending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, ...valueOf(row, column) }));
  rows.sort((first, second) => {
    if (Number.isNaN(first.number) !== Number.isNaN(second.number)) return Number.isNaN(first.number) ? 1 : -1;
    const order = Number.isNaN(first.number) ? first.text.localeCompare(second.text) : first.number - second.number;
    return descending ? -order : order;
  });
  table.tBodies[0].append(...rows.map(({ row }) => row));
}

for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
  if (!table.tHead?.textContent.trim() || !table.tBodies[0] || table.tBodies[0].rows.length < 3) continue;
  for (const heading of table.tHead.rows[0].cells) {
    heading.classList.add("sortable");
    heading.tabIndex = 0;
    heading.addEventListener("click", () => sortBy(table, heading));
    heading.addEventListener("keydown", (event) => { if (event.key === "Enter") sortBy(table, heading); });
  }
}
