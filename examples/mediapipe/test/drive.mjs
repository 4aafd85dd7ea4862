// Drives the page in Chromium: node drive.mjs ADDRESS FILE SCREENSHOT < JSON list of [text, other text].
// Prints JSON: the answers to each pair, the requested addresses, and the messages of the console.

import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [address, file, screenshot] = process.argv.slice(2);
const texts = JSON.parse(readFileSync(0, "utf-8"));
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
});
const page = await browser.newPage({ viewport: { width: 720, height: 560 } });
const requests = [];
const errors = [];
page.on("request", (request) => requests.push(request.url()));
page.on("pageerror", (error) => errors.push(String(error)));
page.on("console", (message) => {
  const isInfo = message.text().startsWith("INFO:"); // LiteRT writes these as errors
  if (message.type() === "error" && !isInfo) errors.push(message.text());
});
await page.goto(address);
await page.setInputFiles("#file", file);
await page.waitForFunction(() => !/opening|No file/.test(document.getElementById("status").textContent));
const answers = [];
for (const [text, other] of texts) {
  if (await page.isVisible("#other")) await page.fill("#other", other);
  await page.fill("#text", text);
  answers.push(await page.locator("#answers li").allTextContents());
}
const status = await page.textContent("#status");
await page.screenshot({ path: screenshot });
await browser.close();
console.log(JSON.stringify({ answers, status, requests, errors }));
