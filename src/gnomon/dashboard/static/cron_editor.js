// The preview of the editor, as one types. Without it, the button Preview does the same.
const form = document.getElementById("editor");
const shown = document.getElementById("preview");
const panel = shown.closest(".preview");
const FIELDS = ["kind", "cron_expression", "interval_seconds", "interval_from", "timezone", "gap", "fold", "start_date", "end_date", "job"];
const PAUSE = 250;
let waiting = 0;
let asking = null;

function question() {
  const given = new FormData(form);
  const asked = new URLSearchParams();
  for (const name of FIELDS) if (given.has(name)) asked.set(name, given.get(name));
  return `${form.dataset.preview}?${asked}`;
}

function mark(errors) {
  for (const name of FIELDS) {
    const field = document.getElementById(`f-${name}`);
    const problem = document.getElementById(`problem-${name}`);
    if (!field || !problem) continue;
    problem.textContent = errors[name] || "";
    if (errors[name]) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
}

async function preview() {
  asking?.abort();
  const mine = asking = new AbortController();
  panel.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(question(), { signal: mine.signal, headers: { accept: "text/html" } });
    if (!answer.ok || answer.redirected) return;
    shown.innerHTML = await answer.text();
    mark(JSON.parse(shown.querySelector("[data-errors]").dataset.errors));
    document.dispatchEvent(new Event("htmx:after:swap"));  // times are shown as the reader wants them
  } catch (error) {
    if (error.name !== "AbortError") console.warn("no preview", error);
  } finally {
    if (asking === mine) panel.removeAttribute("aria-busy");
  }
}

function later(event) {
  if (!FIELDS.includes(event.target.name)) return;
  clearTimeout(waiting);
  waiting = setTimeout(preview, PAUSE);
}

form.addEventListener("input", later);
form.addEventListener("change", later);
