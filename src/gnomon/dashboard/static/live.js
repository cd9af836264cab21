// The live part of a page: a stream says that something has changed, and the page asks for the part
// again. Nothing moves under the pointer or the focus, while something is chosen, or when paused:
// what has changed meanwhile is shown as soon as that is over.

import { kept } from "./dashboard.js";

const part = () => document.getElementById("live-part");
const button = document.getElementById("live");
const box = document.getElementById("live-box");
const note = document.getElementById("live-note");

const HELD_SECONDS = 0.3;  // between two looks whether the reader is done
const RETRY_SECONDS = [1, 2, 5, 10, 30, 60];
const ANSWER_SECONDS = 20;  // after which an answer is not waited for any longer
const SILENT_SECONDS = 60;  // a stream speaks every ten to fifteen; then its connection is dead
const QUIET_SECONDS = 2;  // a stream that comes back within them is not worth a word

const state = {
  paused: kept.get("live", "on") === "off",
  over: false,              // the session has ended
  changed: false,           // something, and it is not shown yet
  asking: false,
  askAt: 0,                 // not before, after an answer that failed
  failures: 0,
  heardAt: Date.now(),      // when the stream said something, or began
  lost: null,               // the timer that says that the stream is lost
};

function say(text) { if (note.textContent !== text) note.textContent = text; }

function showButton() {
  button.setAttribute("aria-pressed", String(!state.paused));
  button.textContent = state.paused ? "Paused" : "Live";
}

// Where the pointer is on something to press or to read in a row, it must stay where it is.
const POINTED = ["a", "button", "summary", "input", "select", "textarea", "label", "tr", "li", "svg", "canvas"]
  .map((name) => `${name}:hover`).join();

function inUse() {
  const here = part();
  if (here.contains(document.activeElement) && document.activeElement !== here) return "it has the focus";
  if (here.querySelector(POINTED)) return "the pointer is on it";
  const selection = document.getSelection();
  if (!selection.isCollapsed && here.contains(selection.anchorNode)) return "text is selected";
  if (here.querySelector("details.sure[open], dialog[open], [data-menu][open]")) return "a question is open";
  for (const each of here.querySelectorAll("input, select, textarea")) {
    if (each.type === "checkbox" || each.type === "radio") {
      if (each.checked !== each.defaultChecked) return "something is chosen";
    } else if (each.tagName === "SELECT") {
      if ([...each.options].some((option) => option.selected !== option.defaultSelected) &&
        each.selectedIndex > 0) return "something is chosen";
    } else if (each.type !== "hidden" && each.value !== each.defaultValue) return "something is typed";
  }
  return null;
}

// What the reader opened stays open; what a script has drawn stays drawn.
htmx.config.morphSkip = "[data-keep]";
document.addEventListener("htmx:before:morph:attr", (event) => {
  if (event.detail.attrName === "open" && event.target.tagName === "DETAILS") event.preventDefault();
});

function address() {
  const url = new URL(part().dataset.refresh || location.href, location.href);
  url.searchParams.set("fragment", "1");
  url.searchParams.delete("done");
  return url;
}

function soon() { return 1000 * RETRY_SECONDS[Math.min(state.failures++, RETRY_SECONDS.length - 1)] * (0.7 + 0.6 * Math.random()); }

async function refresh() {
  if (state.asking || state.paused || state.over || document.hidden || Date.now() < state.askAt) return;
  const why = inUse();
  if (why) { say(`Changes wait: ${why}.`); return; }
  state.asking = true;
  state.changed = false;
  try {
    const answer = await fetch(address(), { signal: AbortSignal.timeout(ANSWER_SECONDS * 1000) });
    if (answer.status === 401) { end(); return; }
    const text = await answer.text();
    if (!answer.ok || !text.includes('id="live-part"')) throw new Error(String(answer.status));
    // The reader may have come back meanwhile.
    if (inUse() || state.paused) { state.changed = true; return; }
    await htmx.swap({ target: part(), sourceElement: part(), swap: "outerMorph", text });
    state.failures = 0;
    if (!state.lost) say("");
    document.dispatchEvent(new CustomEvent("live:shown"));
  } catch (error) {
    state.changed = true;
    state.askAt = Date.now() + soon();
    if (error.message === "503") say("The newest state took too long to read. Trying again.");
  } finally { state.asking = false; }
}

function end() {
  state.over = true;
  const link = document.createElement("a");
  link.href = `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`;
  link.textContent = "Sign in again";
  note.replaceChildren("Your session has ended. ", link);
  close();
}

function showOpenEvents(id, number) {
  const badge = document.getElementById(id);
  if (!badge) return;
  badge.hidden = number === 0;
  badge.firstElementChild.textContent = number > 99 ? "99+" : String(number);
}

// The stream. hx-sse reads it, connects again (later and later, and not all pages at once), and lets
// go of it while the page is hidden. A first connection that fails is left to us.

const stream = document.createElement("div");
stream.hidden = true;
stream.setAttribute("hx-swap", "none");
let again = null;

function connect() {
  clearTimeout(again);
  if (state.paused || state.over || stream._htmx?.sse) return;
  htmx.ajax("GET", stream.getAttribute("hx-sse:connect"), { source: stream });
}

function connectLater() {
  clearTimeout(again);
  again = setTimeout(connect, soon());
}

function close() { stream._htmx?.sse?.reader?.cancel(); }

// A network that has gone leaves a stream that neither speaks nor ends.
function dropSilent() {
  if (document.hidden || !part().dataset.topics || Date.now() < state.heardAt + SILENT_SECONDS * 1000) return;
  state.heardAt = Date.now();
  close();
}

function isLost() {
  if (state.lost || state.paused || state.over || document.hidden) return;
  state.lost = setTimeout(() => say("Connection lost. Reconnecting\u2026"), QUIET_SECONDS * 1000);
}

const heard = {
  "htmx:sse:before:connection": (event) => {
    if (state.paused || state.over) event.preventDefault();
    else if (event.detail.connection.attempt > 0) isLost();
  },
  "htmx:sse:after:connection": () => {
    clearTimeout(state.lost);
    if (state.lost) say("");
    state.lost = null;
    state.failures = state.askAt = 0;
    state.heardAt = Date.now();
  },
  "htmx:sse:error": (event) => {
    if (event.detail.status === 401) end();
    else isLost();
  },
  "htmx:sse:close": connectLater,
  "htmx:after:request": (event) => {  // no stream: it would not have come here
    if (event.detail.ctx.response.status === 401) end();
    else { isLost(); connectLater(); }
  },
  "htmx:error": () => { isLost(); connectLater(); },
  changed: () => { state.heardAt = Date.now(); state.changed = true; refresh(); },
  "open-events": (event) => showOpenEvents("open-events", Number(event.detail.data)),
  "open-installation-events": (event) => showOpenEvents("open-installation-events", Number(event.detail.data)),
  ended: end,
};

function start() {
  for (const [name, hear] of Object.entries(heard)) stream.addEventListener(name, hear);
  stream.setAttribute("hx-sse:connect", `${box.dataset.stream}?topics=${encodeURIComponent(part().dataset.topics || "")}`);
  box.append(stream);
  box.hidden = false;
  showButton();
  button.addEventListener("click", () => {
    state.paused = !state.paused;
    kept.set("live", state.paused ? "off" : "on");
    showButton();
    say("");
    if (state.paused) close();
    else { state.changed = true; state.failures = state.askAt = 0; connect(); refresh(); }
  });
  // Whoever signs out asks for nothing more: it would be refused before the next page is there.
  document.querySelector('form[action="/sign-out"]')?.addEventListener("submit", () => { state.over = true; close(); });
  setInterval(() => { dropSilent(); if (state.changed) refresh(); }, HELD_SECONDS * 1000);
  connect();
}

if (part()) start();
