"use strict";
// Every word is in the page already; this only shows it beside the picture.
for (const run of document.querySelectorAll("figure.run")) {
  const out = run.querySelector(".readout");
  const cells = [...run.querySelectorAll(".cell")];
  const show = (event) => {
    const cell = event.target.closest(".cell");
    if (cell) out.textContent = cell.getAttribute("aria-label");
  };
  const go = (event) => {
    const at = cells.indexOf(event.target.closest(".cell"));
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: cells.length - 1 }[event.key];
    if (at < 0 || to === undefined || !cells[to]) return;
    cells[at].setAttribute("tabindex", "-1");
    cells[to].setAttribute("tabindex", "0");
    cells[to].focus();
    event.preventDefault();
  };
  run.addEventListener("pointerover", show);
  run.addEventListener("focusin", show);
  run.addEventListener("keydown", go);
}
