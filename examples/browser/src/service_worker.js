// Serves the page without a network. `vite.config.ts` fills in the two names in capitals.

const CACHE = "bert-browser-__VERSION__";
const FILES = ["__FILES__"];

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  event.waitUntil(deleteOldCaches().then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method === "GET" && url.origin === location.origin) event.respondWith(answer(event));
});

async function deleteOldCaches() {
  const old = (await caches.keys()).filter((name) => name.startsWith("bert-browser-") && name !== CACHE);
  await Promise.all(old.map((name) => caches.delete(name)));
}

/** Answers from the cache; the page itself and the list of models from the network, if there is one. */
async function answer(event) {
  const { request } = event;
  const cache = await caches.open(CACHE);
  const stored = await cache.match(request, { ignoreSearch: true, ignoreVary: true });
  const changes = request.mode === "navigate" || request.url.endsWith("/models/index.json");
  if (stored && !changes) return stored;
  try {
    const response = await fetch(request);
    // the disk may be full: then the page works, but not offline
    if (response.status === 200) event.waitUntil(cache.put(request, response.clone()).catch(console.warn));
    return response;
  } catch (error) {
    if (stored) return stored;
    throw error;
  }
}
