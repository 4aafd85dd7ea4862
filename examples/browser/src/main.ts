/** Starts the page. */

import { find } from "./dom.ts";
import { Engine } from "./engine.ts";
import { Panel, type View } from "./panel.ts";
import { answers } from "./panels/answers.ts";
import { entities } from "./panels/entities.ts";
import { search } from "./panels/search.ts";
import type { ModelList, TaskName } from "./protocol.ts";
import { connectThemeButton } from "./theme.ts";

const MAX_WAIT_MS = 3000;

/** Starts the service worker. Returns whether it answers the page's requests. */
async function startServiceWorker(): Promise<boolean> {
  const { serviceWorker } = navigator;
  if (!serviceWorker) return false; // the page is not on https or localhost
  try {
    await serviceWorker.register("service_worker.js");
  } catch {
    return false;
  }
  if (serviceWorker.controller) return true;
  return new Promise((resolve) => {
    serviceWorker.addEventListener("controllerchange", () => resolve(true), { once: true });
    setTimeout(() => resolve(Boolean(serviceWorker.controller)), MAX_WAIT_MS);
  });
}

/** Reads the list that `npm run models` writes; without one, the panels name that command. */
async function readModels(): Promise<ModelList> {
  try {
    return await (await fetch("models/index.json", { cache: "no-cache" })).json();
  } catch {
    return {};
  }
}

/** Updates each panel when it comes into view, so that no model is loaded in vain. */
function startPanels(models: ModelList, engine: Promise<Engine>): void {
  const panels = [entities, answers, search].map((view) => new Panel(view as View<TaskName>, models, engine));
  const observer = new IntersectionObserver((entries) => {
    for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
      observer.unobserve(target);
      void panels.find((panel) => panel.section === target)?.update();
    }
  });
  for (const { section } of panels) observer.observe(section);
}

connectThemeButton();
const worksOffline = startServiceWorker();
const models = await readModels();
// the worker must start under the service worker, which otherwise does not see its downloads
startPanels(models, worksOffline.then(() => new Engine(models, document.baseURI)));
find("#offline").textContent = (await worksOffline)
  ? "This page also works without a network, with the models that it has loaded once."
  : "This page works only with a network: open it over https or on localhost to use it offline.";
