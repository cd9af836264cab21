// Selection in the list of tasks: all of a page, how many, and buttons that say what they touch.
// Without this the boxes and the buttons work as well.

const form = () => document.getElementById("selection");
const boxes = () => [...(form()?.querySelectorAll("tbody input[type=checkbox]") ?? [])];

function show() {
  const all = document.getElementById("select-all");
  if (!all) return;
  const chosen = boxes().filter((each) => each.checked).length;
  all.hidden = false;
  all.checked = chosen > 0 && chosen === boxes().length;
  all.defaultChecked = all.checked;  // it is not chosen by itself: see the live part
  all.indeterminate = chosen > 0 && chosen < boxes().length;
  const count = document.getElementById("count");
  const text = chosen === 0 ? "Select tasks to act on them." : `${chosen} selected`;
  if (count.textContent !== text) count.textContent = text;
  form().querySelector(".buttons").hidden = chosen === 0;
  for (const each of form().querySelectorAll("button[name=action]")) {
    each.textContent = `${each.textContent.split(" ")[0]} ${chosen} selected`;
  }
}

document.addEventListener("change", (event) => {
  if (event.target.id === "select-all") for (const each of boxes()) each.checked = event.target.checked;
  if (form()?.contains(event.target)) show();
});
document.addEventListener("live:shown", show);
addEventListener("pageshow", show);

// Panels close by Escape, and when something else is pressed.
const tools = () => [...document.querySelectorAll("details.tool, .selected details.sure")];
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const each of tools().filter((tool) => tool.open)) {
    const within = each.contains(document.activeElement);
    each.open = false;
    if (within) each.querySelector("summary").focus();
  }
});
document.addEventListener("pointerdown", (event) => {
  for (const each of tools()) if (!each.contains(event.target)) each.open = false;
});
show();
