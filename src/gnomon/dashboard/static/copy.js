// Copies what a button names. Off loopback without HTTPS there is no clipboard for pages: then the
// text is selected and copied as by hand, or is left selected.
for (const button of document.querySelectorAll("button[data-copy]")) {
  const told = document.getElementById(button.dataset.told);
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copy);
    told.textContent = await copied(text) ? "Copied." : "It is selected: press Ctrl+C.";
  });
}

async function copied(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    document.getSelection().selectAllChildren(element);
    return document.execCommand("copy");
  }
}

// A reload shows the list, and asks for no second secret.
const made = document.querySelector("[data-then]");
if (made) history.replaceState(null, "", made.dataset.then);
