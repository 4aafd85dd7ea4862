/** The button that switches between the light and the dark theme; the first choice is the system's. */

import { find } from "./dom.ts";

const KEY = "bert-browser-theme";

export function connectThemeButton(): void {
  const button = find<HTMLButtonElement>("#theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = readChoice();
  const show = () => {
    const isDark = chosen ? chosen === "dark" : system.matches;
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    button.textContent = isDark ? "Light theme" : "Dark theme";
  };
  button.addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    storeChoice(chosen);
    show();
  });
  system.addEventListener("change", show);
  show();
}

function readChoice(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // the browser stores nothing for this site
  }
}

function storeChoice(theme: string): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // the choice holds until the page is closed
  }
}
