// The page of the API, from /openapi.json: each endpoint with its body, answer and statuses, and a way to try it.

import { ask, build, byId, copyText, makeCurl, onKey, send } from "./common.js";
import { describeSchema } from "./schema_text.js";

const HEADERS = [
  "content-type",
  "x-request-id",
  "x-total-time",
  "x-queue-time",
  "x-tokenization-time",
  "x-inference-time",
  "x-compute-tokens",
  "retry-after",
  "www-authenticate",
];
const MAX_CHARACTERS = 20_000; // of an answer that is shown
// The kind of model, as /info names it, that the example of an endpoint needs
const KINDS = [
  [/embed|similarity/, "embedding"],
  [/rerank|:regress/, "reranker"],
  [/classify|predict|infer/, "classifier"],
];

let schemas = {};
let models = [];

async function start() {
  try {
    const description = (await ask("GET", "openapi.json")).json;
    schemas = description.components.schemas;
    models = (await ask("GET", "info")).json.models;
    byId("facts").textContent =
      `${description.info.title} ${description.info.version}. ${description.info.description}`;
    showGroups(description.paths);
  } catch (error) {
    byId("error").textContent = error.message;
    byId("error").hidden = !error.message;
  }
}

function showGroups(paths) {
  const groups = new Map();
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags[0].replace(/^./, (letter) => letter.toUpperCase());
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(makeEndpoint(method.toUpperCase(), path, operation));
    }
  }
  const makeId = (tag) => `group-${tag.toLowerCase().replaceAll(/\W+/g, "-")}`;
  byId("groups").replaceChildren(...[...groups.keys()].map((tag) => build("a", { href: `#${makeId(tag)}` }, tag)));
  byId("endpoints").replaceChildren(
    ...[...groups].map(([tag, endpoints]) =>
      build(
        "section",
        { class: "group", "aria-labelledby": makeId(tag) },
        build("h2", { id: makeId(tag) }, tag),
        ...endpoints,
      ),
    ),
  );
  openAddressed();
}

function openAddressed() {
  const target = byId(location.hash.slice(1));
  if (target?.matches("details")) target.open = true;
  target?.scrollIntoView();
}

// One endpoint; its content is made when it is opened for the first time
function makeEndpoint(method, path, operation) {
  const box = build(
    "details",
    { class: "endpoint", id: operation.operationId },
    build(
      "summary",
      {},
      build("span", { class: `method ${method.toLowerCase()}` }, method),
      build("code", { class: "path" }, ...path.split(/(?=[/:])/).flatMap((part) => [part, build("wbr")])),
      build("span", { class: "soft" }, operation.summary),
    ),
  );
  box.addEventListener("toggle", () => {
    if (box.open && box.children.length === 1) {
      box.append(build("div", { class: "columns" }, describeEndpoint(operation), makeForm(method, path, operation)));
    }
  });
  return box;
}

function describeEndpoint(operation) {
  const body = getContent(operation.requestBody)?.schema;
  const answer = getContent(operation.responses["200"]);
  const rows = Object.entries(operation.responses).map(([status, { description }]) =>
    build("tr", {}, build("td", {}, status), build("td", {}, description)),
  );
  return build(
    "div",
    {},
    ...(body ? [build("h3", {}, "Request"), build("pre", { tabindex: 0 }, describeSchema(body, schemas))] : []),
    build("h3", {}, "Answer"),
    build("pre", { tabindex: 0 }, describeSchema(answer.schema, schemas)),
    build("h3", {}, "Statuses"),
    build("table", {}, build("tbody", {}, ...rows)),
    operation.security ? "" : build("p", { class: "hint" }, "Needs no API key."),
  );
}

const getContent = (part) => part && Object.values(part.content)[0];

function makeForm(method, path, operation) {
  const fields = (operation.parameters ?? []).map(({ name }) =>
    makeField(operation.operationId, name, findValue(path, name)),
  );
  const example = getContent(operation.requestBody)?.example;
  const text = example && JSON.stringify(fillExample(path, example), null, 2);
  const body = text && makeField(operation.operationId, "body", text, text.split("\n").length + 1);
  const result = build("div", { "aria-live": "polite" });
  const read = () => [
    method,
    fields.reduce((all, { name, input }) => all.replace(`{${name}}`, encodeURIComponent(input.value)), path).slice(1),
    body ? body.input.value : null,
  ];
  const submit = async (event) => {
    event.preventDefault();
    result.replaceChildren(build("p", { class: "hint" }, "Waiting for the answer ..."));
    result.replaceChildren(...(await sendRequest(...read())));
  };
  return build(
    "form",
    { onsubmit: submit },
    build("h3", {}, "Try it"),
    ...fields.flatMap((one) => one.nodes),
    ...(body?.nodes ?? []),
    build(
      "p",
      { class: "controls" },
      build("button", { type: "submit" }, "Send"),
      build(
        "button",
        { type: "button", onclick: () => result.replaceChildren(...showCurl(makeCurl(...read()))) },
        "Show curl",
      ),
    ),
    result,
  );
}

function makeField(place, name, value, rows = null) {
  const id = `${place}-${name}`;
  const input = build(rows ? "textarea" : "input", {
    id,
    rows,
    required: true,
    spellcheck: "false",
    autocomplete: "off",
  });
  input.value = value;
  return { name, input, nodes: [build("label", { for: id }, name), input] };
}

function findValue(path, name) {
  const model = findModel(path);
  return String({ name: model?.model_id, version: model?.version }[name] ?? "");
}

// The first model of the kind that an endpoint needs, otherwise the first model
function findModel(path) {
  const kind = KINDS.find(([pattern]) => pattern.test(path))?.[1] ?? path.slice(1);
  return models.find((one) => kind in one.model_type) ?? models[0];
}

// Name a model in the example if the address names none and there are several; OpenAI's clients always name one
function fillExample(path, example) {
  const needsName = "model" in example || (models.length > 1 && !path.includes("{"));
  return needsName && models.length ? { ...example, model: findModel(path).model_id } : example;
}

async function sendRequest(method, path, body) {
  let exchange;
  try {
    exchange = await send(method, path, body);
  } catch (error) {
    return [build("p", { class: "error" }, error.message)];
  }
  const { status, headers, text, milliseconds } = exchange;
  const rows = HEADERS.filter((name) => headers.has(name)).map((name) =>
    build("tr", {}, build("td", {}, name), build("td", {}, headers.get(name))),
  );
  return [
    build(
      "h3",
      {},
      build("span", { class: status < 400 ? "status" : "status bad" }, `Status ${status}`),
      ` after ${milliseconds.toFixed(1)} ms`,
    ),
    build("pre", { tabindex: 0 }, shorten(formatJson(text))),
    build("h3", {}, "Headers"),
    build("table", {}, build("tbody", {}, ...rows)),
  ];
}

function showCurl(command) {
  const code = build("pre", { tabindex: 0 }, command);
  const button = build("button", { type: "button", onclick: () => copyText(code, button) }, "Copy");
  return [build("div", { class: "title" }, build("h3", {}, "curl"), button), code];
}

// JSON with one line per field; lists of numbers stay on one line
function formatJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2).replaceAll(/\[[\s\d.,eE+-]+\]/g, (list) =>
      list.replaceAll(/\s+/g, " "),
    );
  } catch {
    return text; // of another type, such as the metrics
  }
}

function shorten(text) {
  if (text.length <= MAX_CHARACTERS) return text;
  const rest = (text.length - MAX_CHARACTERS).toLocaleString("en");
  return `${text.slice(0, MAX_CHARACTERS)}\n... and ${rest} more characters`;
}

addEventListener("hashchange", openAddressed);
onKey(() => {
  byId("error").hidden = true;
  if (!models.length) start();
});
start();
