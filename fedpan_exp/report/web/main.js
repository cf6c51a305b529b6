// Set the theme, by default that of the system, then draw every section.
const dark = matchMedia("(prefers-color-scheme: dark)");
const storedTheme = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
  document.dispatchEvent(new Event("themechange"));
}
document.getElementById("theme").addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("theme", theme); } catch { /* storage may be forbidden for a local file */ }
  setTheme(theme);
});
dark.addEventListener("change", () => storedTheme() || setTheme(dark.matches ? "dark" : "light"));
setTheme(storedTheme() || (dark.matches ? "dark" : "light"));

showOverview();
showFigures();
showCurves();
showPaired();
showHeat();
showPartition();
showRuns();
showFilters(); // last: it updates the sections above
document.getElementById("foot").textContent = "One file, no network requests. Made by python -m fedpan_exp.report.";

if (data.watching) {
  let touched = false;
  for (const event of ["pointerdown", "keydown"]) addEventListener(event, () => { touched = true; });
  setInterval(() => touched || location.reload(), 15000); // do not reload under a reader's hands
}
