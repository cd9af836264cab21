// Menus close by Escape, and when something else is pressed or focused. Without this they close by
// their own button only.
const menus = [...document.querySelectorAll("details.menu")];

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of menus.filter((each) => each.open)) {
    menu.open = false;
    if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
  }
});
for (const kind of ["pointerdown", "focusin"]) {
  document.addEventListener(kind, (event) => {
    for (const menu of menus) if (!menu.contains(event.target)) menu.open = false;
  });
}
