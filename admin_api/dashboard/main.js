// The frame around the pages: which one is shown, how old it is, and what needs a person.

import { ask, Problem, setToken } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { span } from "./format.js";
import { showBacklogs } from "./backlog.js";
import { showEvents } from "./events.js";
import { showGroup } from "./group.js";
import { showMembers } from "./members.js";
import { showOperations } from "./operations.js";
import { showOverview } from "./overview.js";
import { showTopics } from "./topics.js";

const REFRESH_MS = 2_000;
const STALE_MS = 10_000;

const content = document.getElementById("content");
const freshness = document.getElementById("freshness");
const age = document.getElementById("age");
const attention = document.getElementById("attention");

const PAGES = [
  [/^#\/groups\/(.+)$/, "overview", (name) => showGroup(page, decoded(name))],
  [/^#\/members$/, "members", () => showMembers(page)],
  [/^#\/topics$/, "topics", () => showTopics(page)],
  [/^#\/backlogs$/, "backlogs", () => showBacklogs(page)],
  [/^#\/operations$/, "operations", () => showOperations(page)],
  [/^#\/events$/, "events", () => showEvents(page)],
  [/^/, "overview", () => showOverview(page)],
];

/** A part of an address as a name; one that was typed in by hand may be no valid encoding. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

let page;
let lastAnswer = null;
let sampleAge = 0;
let trouble = "";

/** What a page is given: where to draw, when to stop, and how to say that its data came. */
function newPage() {
  const stop = new AbortController();
  return {
    content,
    signal: stop.signal,
    stop: () => stop.abort(),
    title: (text) => {
      document.title = `${text} · pulsar-quota`;
    },
    /** Ask again and again; what fails is said in the frame, and the page stays as it was. */
    every: (look, period = REFRESH_MS) => repeat(look, period, stop.signal),
    fresh: (ageMillis = 0) => {
      lastAnswer = Date.now();
      sampleAge = ageMillis;
      trouble = "";
      showAge();
    },
  };
}

async function repeat(look, period, signal) {
  while (!signal.aborted) {
    try {
      await look();
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status === 401) {
        page.stop(); // the refusals of other questions would empty the field that is being filled in
        return askForToken(error.message);
      }
      if (!(error instanceof Problem)) throw error;
      trouble = error.message;
      showAge();
      if (lastAnswer === null) showProblem(error);
    }
    await new Promise((done) => setTimeout(done, document.hidden ? period * 5 : period));
  }
}

function showProblem(error) {
  if (content.querySelector(".card, .login, .problem")) return;
  fill(content, h("p", { class: "problem", role: "alert" }, error.message));
}

function askForToken(reason) {
  const input = h("input", { type: "password", id: "token", autocomplete: "off", required: true });
  fill(
    content,
    h(
      "form",
      {
        class: "card login",
        onsubmit: (event) => {
          event.preventDefault();
          setToken(input.value.trim());
          route();
        },
      },
      h("h1", {}, "Who are you?"),
      h("p", { class: "minor" }, `${reason}. The token stays in this tab until it is closed.`),
      h("label", { for: "token" }, "Token", input),
      h("button", { class: "button primary" }, "Show the dashboard"),
    ),
  );
  input.focus();
}

function showAge() {
  if (lastAnswer === null) {
    setText(age, trouble || "connecting");
  } else {
    const old = Date.now() - lastAnswer + sampleAge;
    setText(age, trouble ? `${trouble}; shown is ${span(old)} old` : `${span(old)} old`);
    freshness.classList.toggle("stale", Boolean(trouble) || old > STALE_MS);
  }
}

async function lookAround() {
  const overview = await (await ask("/quota/v1/overview?limit=1", { signal: page.signal })).json();
  const shown = overview.attention.join("\n");
  if (attention.dataset.shown !== shown) {
    attention.dataset.shown = shown;
    attention.hidden = !shown;
    fill(attention, h("ul", {}, overview.attention.map((text) => h("li", {}, text))));
  }
}

function route() {
  page?.stop();
  page = newPage();
  lastAnswer = null;
  trouble = "";
  freshness.classList.remove("stale");
  const [pattern, name, show] = PAGES.find(([known]) => known.test(location.hash));
  for (const link of document.querySelectorAll("[data-page]")) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  fill(content);
  showAge();
  show(...(pattern.exec(location.hash)?.slice(1) ?? []));
  page.every(lookAround, 5_000);
}

addEventListener("hashchange", () => {
  route();
  content.focus({ preventScroll: true });
  scrollTo(0, 0);
});
setInterval(showAge, 500);
route();
