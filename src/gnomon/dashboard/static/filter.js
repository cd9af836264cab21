// Completes the condition at the cursor of a filter: first its name, then values that there are. They
// come from the list that the browser completes with where there is no script.

const MOST = 12;

// The condition around the cursor: where it begins and ends. A space in quotes does not end it.
export function tokenAt(text, cursor) {
  let begin = 0, quoted = false;
  for (let at = 0; at < cursor; at += 1) {
    if (text[at] === "\\" && quoted) at += 1;
    else if (text[at] === '"') quoted = !quoted;
    else if (/\s/.test(text[at]) && !quoted) begin = at + 1;
  }
  let end = cursor;
  while (end < text.length && (quoted || !/\s/.test(text[end]))) {
    if (text[end] === '"') quoted = !quoted;
    end += 1;
  }
  return [begin, end];
}

// Names first, then values: only those of the name that is there already.
export function matching(options, token, others) {
  const typed = token.toLowerCase().replaceAll('"', "");
  const used = new Set(others.map((each) => each.split(":")[0]));
  return options.filter((each) => {
    const [name] = each.split(":");
    if (used.has(name)) return false;
    const isName = each.endsWith(":") && each.indexOf(":") === each.length - 1;
    if (!typed.includes(":")) return isName && name.startsWith(typed);
    return !isName && each.toLowerCase().replaceAll('"', "").startsWith(typed);
  }).slice(0, MOST);
}

class Completion {
  constructor(input) {
    this.input = input;
    this.options = [...input.list.options].map((each) => each.value);
    for (const each of [...this.options]) {
      const name = `${each.split(":")[0]}:`;
      if (!this.options.includes(name)) this.options.push(name);
    }
    input.removeAttribute("list");
    this.box = document.createElement("div");
    this.box.className = "completing";
    this.box.id = "completing";
    this.box.setAttribute("role", "listbox");
    this.box.setAttribute("aria-label", "Conditions");
    this.box.hidden = true;
    input.after(this.box);
    for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"],
      ["aria-controls", this.box.id], ["aria-expanded", "false"]]) input.setAttribute(name, value);
    input.addEventListener("input", () => this.show());
    input.addEventListener("click", () => this.show());
    input.addEventListener("keydown", (event) => this.press(event));
    input.addEventListener("blur", () => this.hide());
    // Before the field loses the focus.
    this.box.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      const option = event.target.closest("[role=option]");
      if (option) this.take(option.dataset.value);
    });
  }

  show() {
    const { input } = this;
    const [begin, end] = tokenAt(input.value, input.selectionStart);
    const others = `${input.value.slice(0, begin)} ${input.value.slice(end)}`.split(/\s+/).filter(Boolean);
    const found = matching(this.options, input.value.slice(begin, input.selectionStart), others);
    this.box.replaceChildren(...found.map((value, place) => {
      const option = document.createElement("div");
      option.id = `completing-${place}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.dataset.value = value;
      option.textContent = value;
      return option;
    }));
    this.active = -1;
    input.removeAttribute("aria-activedescendant");
    this.box.hidden = found.length === 0;
    input.setAttribute("aria-expanded", String(!this.box.hidden));
  }

  hide() {
    this.box.hidden = true;
    this.active = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  move(step) {
    if (this.box.hidden) this.show();
    const options = [...this.box.children];
    if (!options.length) return;
    const from = this.active < 0 && step < 0 ? 0 : this.active;
    this.active = (from + step + options.length) % options.length;
    options.forEach((each, place) => each.setAttribute("aria-selected", String(place === this.active)));
    options[this.active].scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", options[this.active].id);
  }

  press(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      this.move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter" && !this.box.hidden && this.active >= 0) {
      event.preventDefault();
      this.take(this.box.children[this.active].dataset.value);
    } else if (event.key === "Escape" && !this.box.hidden) {
      event.preventDefault();
      this.hide();
    }
  }

  take(value) {
    const { input } = this;
    const [begin, end] = tokenAt(input.value, input.selectionStart);
    const isName = value.endsWith(":");
    const text = isName ? value : `${value} `;
    input.value = input.value.slice(0, begin) + text + input.value.slice(end).trimStart();
    input.setSelectionRange(begin + text.length, begin + text.length);
    if (isName) this.show(); else this.hide();
  }
}

for (const input of document.querySelectorAll("form[role=search] input[list]")) new Completion(input);
