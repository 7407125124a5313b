// A part of a page that is drawn anew when its data changes, and leaves its reader in peace: what is the same stays,
// open sections, the focus and scrolled parts are as they were, and while its text is selected it waits.

import { h, put } from "./dom.js";
import { quiet } from "./chart.js";

const FOCUSABLE = "a[href], button, input, select, summary, [tabindex]";
const SCROLLED = ".scroll, .code, .tabbody, pre, ol";

// Returns {element, show(data)}; parts(data) makes its content.
export function region(parts, attributes) {
  const element = h("div", attributes);
  let drawn = null; // the data that is shown, as text
  let waiting = null;
  function draw(data, text) {
    drawn = text;
    waiting = null;
    quiet();
    keeping(element, () => put(element, parts(data)));
  }
  document.addEventListener("selectionchange", () => {
    if (waiting && !isSelected(element)) draw(...waiting);
  });
  return {
    element,
    show(data) {
      const text = JSON.stringify(data);
      if (text === drawn) { waiting = null; return; }
      if (isSelected(element)) waiting = [data, text];
      else draw(data, text);
    },
  };
}

function isSelected(element) {
  const chosen = getSelection();
  return !chosen.isCollapsed && chosen.rangeCount > 0 && chosen.getRangeAt(0).intersectsNode(element);
}

function keeping(element, redraw) {
  const opened = new Map([...element.querySelectorAll("details")].map((one, place) => [nameOf(one, place), one.open]));
  const scrolled = [...element.querySelectorAll(SCROLLED)].map((one) => [one.scrollTop, one.scrollLeft]);
  const focus = element.contains(document.activeElement) ? [...element.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement) : -1;
  redraw();
  [...element.querySelectorAll("details")].forEach((one, place) => {
    const was = opened.get(nameOf(one, place));
    if (was !== undefined) one.open = was;
  });
  [...element.querySelectorAll(SCROLLED)].forEach((one, place) => {
    if (scrolled[place]) [one.scrollTop, one.scrollLeft] = scrolled[place];
  });
  if (focus >= 0) element.querySelectorAll(FOCUSABLE)[focus]?.focus({ preventScroll: true });
}

function nameOf(details, place) {
  return details.querySelector("summary")?.textContent || String(place);
}
