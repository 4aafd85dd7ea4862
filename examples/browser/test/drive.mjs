// Drives the built page in Chromium. Reads settings as JSON and prints what the page shows as JSON:
//   echo '{"page": "dist", "isolated": true, "texts": {"tag": [["a text"]]}}' | node test/drive.mjs
// The settings, all except page optional:
//   page      the folder of the built page
//   isolated  whether the server sends the headers that allow threads
//   texts     the texts to type for each task: tag [[text]], answer [[question, text]], embed [[query, lines]]
//   repeats   how often a word is added to the first of these texts to measure the typical latency
//   interrupt for each task, long texts that are typed and at once replaced by the first of the texts
//   offline   whether to reload the page after the server has stopped
//   shots     a folder for screenshots
//   chromium  the browser's program

import { createReadStream, existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

import { chromium } from "playwright-core";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".css": "text/css",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};
const FIELDS = {
  tag: ["#tag-text"],
  answer: ["#answer-question", "#answer-context"],
  embed: ["#embed-query", "#embed-lines"],
};
const BUSY_MS = 240_000; // a slow machine that also runs other tests

/** Starts a server for a folder, under a path that is not the root of the site. */
async function serve(folder, isolated) {
  const headers = isolated
    ? { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" }
    : {};
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const name = normalize(path).replace(/^\/demo\//, "/");
    const file = join(folder, name.endsWith("/") ? `${name}index.html` : name);
    if (!path.startsWith("/demo/") || !existsSync(file) || !statSync(file).isFile()) {
      response.writeHead(404, headers).end();
      return;
    }
    response.writeHead(200, { ...headers, "Content-Type": TYPES[extname(file)] ?? "application/octet-stream" });
    createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, url: `http://localhost:${server.address().port}/demo/` };
}

/** Waits until a panel shows the answer to its present texts. */
async function settle(page, task) {
  await page.locator(`section[data-task=${task}] > footer`).scrollIntoViewIfNeeded();
  const settled = (name) => {
    const section = document.querySelector(`section[data-task=${name}]`);
    const { state } = section.querySelector(":scope > footer").dataset;
    return section.getAttribute("aria-busy") === "false" && ["ready", "error"].includes(state);
  };
  await page.waitForFunction(settled, task, { timeout: BUSY_MS });
}

/** Returns what a panel shows. */
function read(page, task) {
  return page.evaluate((name) => {
    const section = document.querySelector(`section[data-task=${name}]`);
    const numbers = (element) =>
      Object.fromEntries(
        Object.entries(element.dataset).map(([key, value]) => [key, key === "label" ? value : Number(value)]),
      );
    const texts = (selector) => [...section.querySelectorAll(selector)].map((element) => element.textContent);
    const footer = section.querySelector(":scope > footer");
    return {
      status: footer.innerText,
      error: footer.querySelector(".error")?.textContent ?? null,
      firstMs: Number(footer.dataset.first),
      typicalMs: Number(footer.dataset.typical),
      legend: texts(".legend .chip"),
      entities: [...section.querySelectorAll(".entity")].map((element) => ({
        ...numbers(element),
        text: element.querySelector(".words").textContent,
      })),
      best: section.querySelector(".best strong")?.textContent ?? null,
      items: [...section.querySelectorAll(".scores li")].map((element) => ({
        ...numbers(element),
        text: element.querySelector(".words").textContent,
      })),
    };
  }, task);
}

/** Types texts into the fields of a panel. */
async function type(page, task, texts) {
  for (const [index, selector] of FIELDS[task].entries()) {
    // Playwright sends texts as UTF-8, which has no lone surrogates
    const units = [...Array(texts[index].length).keys()].map((place) => texts[index].charCodeAt(place));
    await page.locator(selector).evaluate((field, codes) => {
      field.value = codes.map((code) => String.fromCharCode(code)).join("");
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }, units);
  }
}

/** Types texts into a panel and returns what it shows then. */
async function answer(page, task, texts) {
  const start = performance.now();
  await type(page, task, texts);
  await settle(page, task);
  return { ...(await read(page, task)), ms: performance.now() - start };
}

/** Types texts and, before they are answered, others. Returns how long it takes until these are answered. */
async function interrupt(page, task, texts, others) {
  await type(page, task, texts);
  const start = performance.now();
  return { ...(await answer(page, task, others)), ms: performance.now() - start };
}

/** Adds words to the first text, one by one, as somebody who types does. */
async function repeat(page, task, times) {
  const [selector] = FIELDS[task];
  for (let index = 0; index < times; index++) {
    await page.locator(selector).evaluate((field, number) => {
      field.value = `${field.value.replace(/ \d+$/, "")} ${number}`;
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }, index);
    await settle(page, task);
  }
}

/** Shows a typical latency on each status line. */
async function warmUp(page, tasks) {
  for (const task of tasks) {
    const examples = await Promise.all(FIELDS[task].map((selector) => page.locator(selector).inputValue()));
    await repeat(page, task, 5);
    await answer(page, task, examples);
  }
}

async function takeScreenshots(page, folder) {
  mkdirSync(folder, { recursive: true });
  await page.evaluate(() => scrollTo(0, 0));
  const views = { light: ["light", 1180], dark: ["dark", 1180], phone: ["light", 360], "phone-dark": ["dark", 360] };
  const widths = {};
  for (const [name, [colorScheme, width]] of Object.entries(views)) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.setViewportSize({ width, height: 900 });
    await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
    widths[name] = await page.evaluate(() => document.documentElement.scrollWidth);
  }
  return widths;
}

/** Opens the page, types the texts and returns what it shows. */
async function visit(page, url, { texts = {}, repeats = 0, interrupt: long = {}, shots }) {
  const result = { examples: {}, answers: {}, timed: {}, interrupted: {} };
  await page.goto(url);
  result.isolated = await page.evaluate(() => crossOriginIsolated);
  for (const task of Object.keys(texts)) {
    await settle(page, task);
    result.examples[task] = await read(page, task);
  }
  await page.waitForFunction(() => document.querySelector("#offline").textContent);
  result.missing = await page.locator("section.panel .notice").allInnerTexts();
  if (shots) {
    await warmUp(page, Object.keys(texts));
    result.widths = await takeScreenshots(page, shots);
  }
  await page.setViewportSize({ width: 1180, height: 900 });
  for (const [task, examples] of Object.entries(texts)) {
    result.answers[task] = [];
    for (const one of examples) result.answers[task].push(await answer(page, task, one));
    if (long[task]) result.interrupted[task] = await interrupt(page, task, long[task], examples[0]);
    if (repeats) {
      await answer(page, task, examples[0]);
      await repeat(page, task, repeats);
      result.timed[task] = await read(page, task);
    }
  }
  return result;
}

/** Reloads the page after the end of its server. */
async function visitOffline(page, server, texts) {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await page.reload();
  const answers = {};
  for (const [task, [first]] of Object.entries(texts)) answers[task] = await answer(page, task, first);
  return { isolated: await page.evaluate(() => crossOriginIsolated), answers };
}

async function main({ page: folder, isolated = false, offline = false, chromium: executablePath, ...options }) {
  const { server, url } = await serve(folder, isolated);
  const browser = await chromium.launch({ executablePath: executablePath ?? "/usr/bin/chromium", args: FLAGS });
  try {
    const context = await browser.newContext({ viewport: { width: 1180, height: 900 } });
    const page = await context.newPage();
    const problems = [];
    const requests = new Set();
    context.on("request", (request) => requests.add(request.url()));
    context.on("weberror", (error) => problems.push(String(error.error())));
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) problems.push(message.text());
    });
    const result = await visit(page, url, options);
    if (offline) result.offline = await visitOffline(page, server, options.texts);
    const foreign = [...requests].filter((address) => new URL(address).origin !== new URL(url).origin);
    return { ...result, problems, foreign, requests: [...requests].map((address) => address.replace(url, "")) };
  } finally {
    await browser.close();
  }
}

const seen = await main(JSON.parse(readFileSync(0, "utf-8")));
// without waiting for the server's open connections
process.stdout.write(`${JSON.stringify(seen)}\n`, () => process.exit(0));
