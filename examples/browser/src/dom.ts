/** Helpers that make elements; texts are only ever set as text. */

type Child = Node | string;

interface Properties {
  className?: string;
  dir?: "auto";
  data?: Record<string, string | number>;
}

/** Makes an element with children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  name: K,
  { className = "", dir, data = {} }: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (dir) element.dir = dir;
  for (const [key, value] of Object.entries(data)) element.dataset[key] = String(value);
  element.append(...children);
  return element;
}

/** Finds the element that the page is known to have. */
export function find<T extends HTMLElement>(selector: string, root: ParentNode = document): T {
  const found = root.querySelector<T>(selector);
  if (!found) throw new Error(`the page has no ${selector}`);
  return found;
}

/** Makes a bar whose length shows a number from 0 to 1. */
export function makeBar(fraction: number): HTMLElement {
  const bar = make("span", { className: "bar" });
  bar.setAttribute("aria-hidden", "true"); // the number stands next to it
  bar.style.setProperty("--fraction", Math.min(Math.max(fraction, 0), 1).toFixed(3));
  return bar;
}

export function formatPercent(probability: number): string {
  return `${(100 * probability).toFixed(probability < 0.0995 ? 1 : 0)} %`;
}

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function formatMilliseconds(milliseconds: number): string {
  return `${milliseconds < 10 ? milliseconds.toFixed(1) : WHOLE.format(milliseconds)} ms`;
}
