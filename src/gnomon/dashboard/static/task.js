// The page of one task: ids to copy, and a chart that grows while the task runs.

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { /* plain HTTP has no such thing: the old way */ }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden";
  area.setAttribute("readonly", "");
  document.body.append(area);
  area.select();
  let done = false;
  try { done = document.execCommand("copy"); } catch { /* neither */ }
  area.remove();
  return done;
}

function showCopy() { for (const each of document.querySelectorAll(".copy[hidden]")) each.hidden = false; }

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.(".copy");
  if (!button) return;
  const done = await copied(button.dataset.copy);
  button.focus();
  button.textContent = done ? "Copied" : "Press Ctrl+C";
  setTimeout(() => { button.textContent = "Copy"; button.blur(); }, 1500);
});
showCopy();
document.addEventListener("htmx:after:swap", showCopy);

// Nothing says "changed" while a task only goes on. So its chart is asked for again.
const part = () => document.getElementById("live-part");
const paused = () => document.getElementById("live")?.getAttribute("aria-pressed") === "false";

setInterval(() => {
  const chart = document.getElementById("gantt");
  if (!chart || part()?.dataset.status !== "RUNNING" || document.hidden || paused()) return;
  if (chart.matches(":hover")) return;
  htmx.ajax("GET", `${part().dataset.refresh}?fragment=1`, { target: "#gantt", select: "#gantt", swap: "outerMorph" }).catch(() => {});
}, 2000);
