// The page to try the models: it sends what the user types and shows the answer.

import { ask, build, byId, copyText, count, makeCurl, onKey } from "./common.js";
import { listLabels, TASKS } from "./task_views.js";

const DELAY = 250; // milliseconds without a key press before a request
// Parts of the time in the server, with the header of each
const PARTS = [
  ["queue", "x-queue-time"],
  ["tokenization", "x-tokenization-time"],
  ["inference", "x-inference-time"],
];
const typed = {}; // what the user has typed for each task, kept when another model is chosen
let models = [];
let model = null;
let running = new AbortController();
let timer = 0;

async function start() {
  try {
    const { json } = await ask("GET", "info");
    models = keepNewest(json.models).filter((one) => one.task in TASKS);
    byId("footer").textContent =
      `bert-keras ${json.version}, up to ${count(json.max_concurrent_requests, "request")} ` +
      `at the same time and ${count(json.max_client_batch_size, "text")} per request`;
    if (!models.length)
      throw new Error("This server has no loaded model that the page can show; reload the page later.");
  } catch (error) {
    showError(error.message);
    return;
  }
  byId("model").replaceChildren(
    ...models.map((one) => build("option", { value: one.model_id }, `${one.model_id} (${one.task})`)),
  );
  byId("choice").hidden = models.length === 1;
  choose();
}

function keepNewest(versions) {
  const newest = new Map();
  for (const one of versions) if (!(newest.get(one.model_id)?.version > one.version)) newest.set(one.model_id, one);
  return [...newest.values()];
}

// Show the model that the address names, or the first
function choose() {
  const chosen = models.find((one) => encodeURIComponent(one.model_id) === location.hash.slice(1)) ?? models[0];
  byId("model").value = chosen.model_id;
  model = chosen;
  typed[model.task] ??= {};
  byId("title").textContent = TASKS[model.task].title;
  byId("facts").textContent = listFacts().join(" · ");
  byId("inputs").replaceChildren(...TASKS[model.task].listFields(model).flatMap(makeField));
  clear();
  byId("work").hidden = false;
  run();
}

function listFacts() {
  const facts = [`version ${model.version}`, model.engine, `up to ${count(model.max_input_length, "token")}`];
  const labels = listLabels(model).length;
  const dimensions = model.model_type.embedding?.dimensions;
  if (models.length === 1) facts.unshift(model.model_id); // otherwise the list of models shows it
  if (labels > 1) facts.push(count(labels, "label"));
  if (dimensions) facts.push(count(dimensions, "dimension"));
  return facts;
}

function makeField({ name, label, rows, choices, value }) {
  const id = `field-${name}`;
  const shown = typed[model.task][name] ?? value;
  const input = choices
    ? build("select", { id, name }, ...choices.map(([one, text]) => build("option", { value: one }, text)))
    : build(rows ? "textarea" : "input", { id, name, rows, dir: "auto", spellcheck: "false", autocomplete: "off" });
  input.value = choices?.every(([one]) => one !== shown) ? value : shown;
  return [build("label", { for: id }, label), input];
}

function readInputs() {
  return Object.fromEntries([...byId("inputs").elements].map((input) => [input.name, input.value]));
}

// Ask the server; an older question whose answer is still missing is cancelled
async function run() {
  clearTimeout(timer);
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const task = TASKS[model.task];
  const inputs = readInputs();
  const bodies = task.makeBodies(inputs, model);
  if (!bodies) {
    clear();
    byId("headline").textContent = task.hint;
    return;
  }
  byId("results").setAttribute("aria-busy", "true");
  try {
    const answers = [];
    for (const body of bodies) answers.push(await ask("POST", task.path, body, signal));
    if (signal.aborted) return;
    clear();
    byId("headline").textContent = task.show(
      byId("answer"),
      answers.map((one) => one.json),
      inputs,
      model,
      byId("comparison"),
    );
    byId("comparison").hidden = !byId("comparison").hasChildNodes();
    showTimes(answers.map((one) => one.exchange));
    byId("curl").textContent = bodies.map((body) => makeCurl("POST", task.path, JSON.stringify(body))).join("\n");
    byId("request").hidden = false;
  } catch (error) {
    if (signal.aborted) return;
    clear();
    showError(error.message, "problem");
  }
}

function clear() {
  byId("results").removeAttribute("aria-busy");
  byId("headline").textContent = "";
  byId("answer").replaceChildren();
  byId("comparison").replaceChildren();
  byId("comparison").hidden = byId("request").hidden = byId("error").hidden = byId("problem").hidden = true;
}

function showError(sentence, place = "error") {
  byId(place).textContent = sentence;
  byId(place).hidden = !sentence;
}

// Where the time went: a bar, and the milliseconds of each part
function showTimes(exchanges) {
  const sum = (read) => exchanges.reduce((total, one) => total + read(one), 0);
  const header = (name) => sum((one) => Number(one.headers.get(name)));
  const total = header("x-total-time");
  const measured = sum((one) => one.milliseconds);
  const roundTrip = Math.max(measured, total); // the clocks of some browsers are rounded to milliseconds
  const parts = PARTS.map(([name, key]) => [name, header(key)]);
  const known = parts.reduce((all, [, milliseconds]) => all + milliseconds, 0);
  parts.push(["rest of the server", Math.max(total - known, 0)], ["network and browser", roundTrip - total]);
  const bar = build(
    "div",
    { class: "stack", "aria-hidden": "true" },
    ...parts.map((_, place) => build("span", { class: `part-${place + 1}` })),
  );
  parts.forEach(([, milliseconds], place) => {
    bar.children[place].style.flexGrow = milliseconds;
  });
  const items = parts.map(([name, milliseconds], place) =>
    build(
      "div",
      {},
      build("dt", {}, build("i", { class: `part-${place + 1}` }), name),
      build("dd", {}, `${milliseconds.toFixed(1)} ms`),
    ),
  );
  byId("times").replaceChildren(
    build(
      "p",
      {},
      build("strong", {}, `${roundTrip.toFixed(1)} ms`),
      ` round trip for ${count(header("x-compute-tokens"), "token")}, ` +
        `of which ${total.toFixed(1)} ms in the server`,
    ),
    bar,
    build("dl", { class: "parts" }, ...items),
  );
}

byId("model").addEventListener("change", () => {
  location.hash = encodeURIComponent(byId("model").value);
});
addEventListener("hashchange", () => {
  if (models.length) choose();
});
byId("inputs").addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
byId("inputs").addEventListener("input", ({ target }) => {
  typed[model.task][target.name] = target.value;
  clearTimeout(timer);
  timer = setTimeout(run, DELAY);
});
byId("again").addEventListener("click", run);
byId("copy").addEventListener("click", () => copyText(byId("curl"), byId("copy")));
onKey(() => {
  clear();
  if (model) run();
  else start();
});
start();
