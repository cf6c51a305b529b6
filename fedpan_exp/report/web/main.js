// Light or dark as the reader's system has it, unless the button says otherwise; then every part draws itself.
const dark = matchMedia("(prefers-color-scheme: dark)");
const remembered = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
  document.dispatchEvent(new Event("themechange"));
}
document.getElementById("theme").addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("theme", theme); } catch { /* a page from a file may not be allowed to remember */ }
  setTheme(theme);
});
dark.addEventListener("change", () => remembered() || setTheme(dark.matches ? "dark" : "light"));
setTheme(remembered() || (dark.matches ? "dark" : "light"));

showOverview();
showExhibits();
showCurves();
showPaired();
showHeat();
showPartition();
showRuns();
showFilters(); // last: it tells the others what is chosen
document.getElementById("foot").textContent = "One file, no network. Made by python -m fedpan_exp.report.";

if (data.watching) {
  let touched = false;
  for (const event of ["pointerdown", "keydown"]) addEventListener(event, () => { touched = true; });
  setInterval(() => touched || location.reload(), 15000); // a reader at work is left alone
}
