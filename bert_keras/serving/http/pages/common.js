// Shared by the pages: elements, requests with the API key, the curl command, numbers.
// Texts become text nodes, never markup. Addresses are relative, so that the pages also work behind a path of a proxy.

export const byId = (id) => document.getElementById(id);

export function build(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

let apiKey = null; // only here: a reload forgets it

// Call `retry` whenever the user has entered an API key
export function onKey(retry) {
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    apiKey = byId("key").value.trim();
    byId("key").value = "";
    byId("key-form").hidden = true;
    retry();
  });
}

function askForKey() {
  if (!byId("key-form").hidden) return;
  byId("key-form").hidden = false;
  byId("key").focus();
}

// Send a request; returns its status, headers, text and milliseconds, whatever the status
export async function send(method, path, body = null, signal = null) {
  const headers = {};
  if (body !== null) headers["Content-Type"] = "application/json";
  if (apiKey !== null) headers.Authorization = `Bearer ${apiKey}`;
  const begin = performance.now();
  let response, text;
  try {
    response = await fetch(path, { method, headers, body, signal, cache: "no-store" });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Error("The server does not answer; check that it runs, then try again.");
  }
  const milliseconds = performance.now() - begin;
  if (response.status === 401) askForKey();
  return { status: response.status, headers: response.headers, text, milliseconds };
}

// Send a request and return its JSON and its exchange; throws the server's sentence if the status is an error
export async function ask(method, path, body = null, signal = null) {
  const exchange = await send(method, path, body === null ? null : JSON.stringify(body), signal);
  if (exchange.status === 401 && apiKey === null) throw new Error(""); // the form asks for the key; that is enough
  if (exchange.status !== 200) throw new Error(readError(exchange));
  return { json: JSON.parse(exchange.text), exchange };
}

function readError({ status, text }) {
  try {
    const { error } = JSON.parse(text);
    return typeof error === "string" ? error : error.message;
  } catch {
    return `The server answered with status ${status}.`; // from a proxy, not from our server
  }
}

// The command that sends the same request; the API key is a variable, so that it is not on the screen
export function makeCurl(method, path, body = null) {
  const parts = [`curl ${quote(new URL(path, document.baseURI).href)}`];
  if (apiKey !== null) parts.push('-H "Authorization: Bearer $BERT_KERAS_API_KEY"');
  if (body !== null) parts.push("-H 'Content-Type: application/json'", `-d ${quote(body)}`);
  else if (method !== "GET") parts.push(`-X ${method}`);
  return parts.join(" \\\n  ");
}

function quote(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

export async function copyText(source, button) {
  try {
    await navigator.clipboard.writeText(source.textContent);
  } catch {
    // browsers have no clipboard for pages from other hosts without TLS
    getSelection().selectAllChildren(source);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  setTimeout(() => {
    button.textContent = "Copy";
  }, 2000);
}

// A number with a minus sign and without "-0.00"
export const decimal = (value, digits) => (Number(value.toFixed(digits)) || 0).toFixed(digits).replace("-", "\u2212");
export const percent = (share) => `${(100 * share).toFixed(1)} %`;
export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
