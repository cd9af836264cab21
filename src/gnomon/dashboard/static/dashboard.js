// Theme, time and keys. Pages work without it.

export const kept = {
  get(name, otherwise) { try { return localStorage.getItem(name) || otherwise; } catch { return otherwise; } },
  set(name, value) { try { localStorage.setItem(name, value); } catch { /* only for this page then */ } },
};

const theme = document.getElementById("theme");
theme.value = kept.get("theme", "auto");
theme.addEventListener("change", () => {
  kept.set("theme", theme.value);
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});

const clock = document.getElementById("clock");
clock.value = kept.get("clock", "utc");
const words = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const units = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];

function relative(at) {
  const seconds = Math.round((at - Date.now()) / 1000);
  const [size, unit] = units.find(([each]) => Math.abs(seconds) >= each) || [1, "second"];
  return words.format(Math.trunc(seconds / size), unit);
}

const two = (number) => String(number).padStart(2, "0");

function local(at) {
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` +
    `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

function showTimes() {
  for (const each of document.querySelectorAll("time")) {
    const at = new Date(each.dateTime);
    const text = clock.value === "relative" ? relative(at)
      : clock.value === "local" ? local(at) : each.dateTime.slice(0, 19).replace("T", " ");
    if (each.textContent !== text) each.textContent = text;
  }
}

clock.addEventListener("change", () => { kept.set("clock", clock.value); showTimes(); });
document.addEventListener("htmx:after:swap", showTimes);
showTimes();
setInterval(() => { if (clock.value === "relative") showTimes(); }, 5000);

// "/" goes to the filter of the page, as in many programs; not while something is being typed.
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const filter = document.querySelector("[data-filter], form[role=search] input:not([type=hidden])");
  if (!filter) return;
  event.preventDefault();
  filter.focus();
  filter.select?.();
});
