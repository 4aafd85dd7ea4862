"use strict";
// Shared by all pages: data, elements, colors, theme. Texts become text nodes, never markup.

const data = JSON.parse(document.getElementById("data").textContent);
const redraws = [];

function build(name, attributes = {}, ...children) {
  const isShape = ["svg", "g", "rect", "line", "path", "text", "circle"].includes(name);
  const node = isShape ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// Draw a chart now, and again when the theme or its width changes
function drawn(box, draw) {
  let width = 0;
  const again = () => {
    if (width && !box.isConnected) return; // another chart has replaced it
    width = box.clientWidth;
    draw(width);
  };
  again();
  redraws.push(again);
  new ResizeObserver(() => { if (box.clientWidth !== width) again(); }).observe(box);
  return again;
}

function decoded(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
  return bytes;
}

let ramps = {};
function readRamps() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => {
    const hex = style.getPropertyValue(name).trim();
    return [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
  };
  ramps = {
    sequential: [0, 1, 2, 3, 4].map((step) => read(`--ramp-${step}`)),
    diverging: [read("--low"), read("--middle"), read("--high")],
  };
}

// The color of a share from 0 to 1, as [red, green, blue]
function shade(share, ramp = "sequential") {
  const stops = ramps[ramp];
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  return stops[low].map((value, channel) => Math.round(value + (place - low) * (stops[low + 1][channel] - value)));
}

function css(rgb) { return `rgb(${rgb.join(",")})`; }

// Black or white, whichever has more contrast to a color (WCAG 2.1, relative luminance)
function inkOn(rgb) {
  const [red, green, blue] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#111" : "#fff";
}

// Isolate a token within a sentence, so that right-to-left text does not reorder the numbers after it
function isolated(token) { return `\u2068${token}\u2069`; }

function number(value, digits = 3) {
  if (value === null || value === undefined) return "";
  if (value !== 0 && (Math.abs(value) < 10 ** -digits || Math.abs(value) >= 1e5)) return value.toExponential(2);
  return value.toFixed(digits).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

function redrawAll() { readRamps(); redraws.forEach((draw) => draw()); }

function prepareTheme() {
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    name();
    redrawAll();
  });
  system.addEventListener("change", () => { name(); redrawAll(); });
  name();
}

readRamps();
prepareTheme();
