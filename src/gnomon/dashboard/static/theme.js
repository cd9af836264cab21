// Before the first paint, so that no page flashes in the other theme.
(() => {
  let theme = "auto";
  try { theme = localStorage.getItem("theme") || "auto"; } catch { /* no storage: automatic */ }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
