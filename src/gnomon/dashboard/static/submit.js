// The form that submits a task: what is known of a type, JSON that is checked while it is typed, one
// press that submits once. Without it the form works just as well.

const form = document.getElementById("submit");
const type = document.getElementById("task_type");
const payload = document.getElementById("payload");
const verdict = document.getElementById("verdict");
const tidy = document.getElementById("tidy");
const use = document.getElementById("use-example");

document.getElementById("look").hidden = true;
document.getElementById("summary")?.focus();

function example() { return document.getElementById("example")?.textContent; }
function offerExample() { use.hidden = !example() || payload.value.trim() === example(); }

let asked = 0;
type.addEventListener("change", async () => {
  const number = ++asked;
  try {
    const answer = await fetch(type.dataset.ask + encodeURIComponent(type.value), { headers: { accept: "text/html" } });
    if (!answer.ok || number !== asked) return;
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("type-part");
    if (found) document.getElementById("type-part").replaceWith(found);
    if (!payload.value.trim() && example()) payload.value = example();
    offerExample();
  } catch { /* it is only a help */ }
});
use.addEventListener("click", () => { payload.value = example(); offerExample(); check(); payload.focus(); });
offerExample();

// Indents without reading: numbers and strings stay as they were written.
function indented(text) {
  let depth = 0, out = "", place = 0;
  const line = () => "\n" + "  ".repeat(depth);
  while (place < text.length) {
    const sign = text[place];
    if (sign === '"') {
      const end = place + text.slice(place).match(/^"(?:[^"\\]|\\.)*"/s)[0].length;
      out += text.slice(place, end);
      place = end;
      continue;
    }
    const empty = text.slice(place).match(/^(\{\s*\}|\[\s*\])/);
    if (empty) { out += sign + (sign === "{" ? "}" : "]"); place += empty[0].length; continue; }
    if (sign === "{" || sign === "[") { depth += 1; out += sign + line(); }
    else if (sign === "}" || sign === "]") { depth -= 1; out += line() + sign; }
    else if (sign === ",") out += sign + line();
    else if (sign === ":") out += ": ";
    else if (!/\s/.test(sign)) out += sign;
    place += 1;
  }
  return out;
}

function check() {
  const text = payload.value.trim();
  let wrong = "";
  if (text && text.length < 300000) try { JSON.parse(text); } catch (error) { wrong = error.message; }
  verdict.textContent = !text ? "" : wrong ? `✕ Not JSON yet: ${wrong}` : "✓ JSON";
  tidy.hidden = !text || Boolean(wrong) || text.length > 20000;
  return !wrong;
}
let soon;
payload.addEventListener("input", () => { clearTimeout(soon); soon = setTimeout(() => { check(); offerExample(); }, 250); });
tidy.addEventListener("click", () => { if (check() && payload.value.trim()) payload.value = indented(payload.value.trim()); });
check();

// The zone of this browser, first among the suggestions.
const zones = document.getElementById("zones");
const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (own && zones) zones.prepend(new Option(own, own));

let sent = false;
form.addEventListener("submit", (event) => {
  if (event.submitter?.name === "step") return;
  if (sent) event.preventDefault();
  sent = true;
});
window.addEventListener("pageshow", () => { sent = false; });
