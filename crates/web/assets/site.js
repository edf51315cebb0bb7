// Highlights the tree row of a byte and the bytes of a row, moves over the bytes by arrow keys, filters the index, and takes dropped
// files. The pages can be read without this script.
"use strict";
for (const box of document.querySelectorAll("[data-frame]")) {
  const cells = [...box.querySelectorAll("a[data-b]")];
  const rows = new Map([...box.querySelectorAll("tr[data-n]")].map((row) => [row.dataset.n, row]));
  let pinned = null;
  const inside = (row) => {
    const from = Number(row.dataset.at);
    return row.dataset.at === undefined ? [] : cells.slice(from, from + Number(row.dataset.size));
  };
  const mark = (row, name, on) => {
    if (!row) return;
    row.classList.toggle(name, on);
    for (const cell of inside(row)) cell.classList.toggle(name, on);
  };
  const rowOf = (target) => {
    const cell = target.closest("a[data-b]");
    return cell ? rows.get(cell.dataset.n) : target.closest("tr[data-n]");
  };
  const show = (on) => (event) => mark(rowOf(event.target), "lit", on);
  box.addEventListener("mouseover", show(true));
  box.addEventListener("mouseout", show(false));
  box.addEventListener("focusin", show(true));
  box.addEventListener("focusout", show(false));
  box.addEventListener("click", (event) => {
    const row = rowOf(event.target);
    if (!row) return;
    event.preventDefault();
    mark(pinned, "pinned", false);
    pinned = pinned === row ? null : row;
    mark(pinned, "pinned", true);
    if (!pinned) return;
    const cell = event.target.closest("a[data-b]");
    const other = cell ? row : inside(row)[0];
    if (other) other.scrollIntoView({ block: "nearest" });
  });
  // The tab key stops at one byte; the arrow keys move to the others.
  cells.forEach((cell, place) => { cell.tabIndex = place === 0 ? 0 : -1; });
  box.addEventListener("keydown", (event) => {
    const place = cells.indexOf(event.target);
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 16, ArrowUp: -16, Home: -place, End: cells.length - 1 - place }[event.key];
    if (place < 0 || step === undefined) return;
    event.preventDefault();
    const next = cells[Math.min(Math.max(place + step, 0), cells.length - 1)];
    cells[place].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
const filter = document.getElementById("filter");
if (filter) {
  filter.closest("[hidden]").hidden = false;
  const rows = [...document.querySelectorAll("#apis tbody tr")];
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    for (const row of rows) {
      const [key, name] = row.cells;
      row.hidden = !(key.textContent === wanted || name.textContent.toLowerCase().includes(wanted));
    }
  });
}
const paste = document.querySelector("form.paste");
if (paste) {
  const stop = (event, over) => { event.preventDefault(); paste.classList.toggle("over", over); };
  paste.addEventListener("dragover", (event) => stop(event, true));
  paste.addEventListener("dragleave", (event) => stop(event, false));
  paste.addEventListener("drop", (event) => {
    stop(event, false);
    if (event.dataTransfer.files.length === 0) return;
    paste.elements.file.files = event.dataTransfer.files;
    paste.requestSubmit();
  });
}
