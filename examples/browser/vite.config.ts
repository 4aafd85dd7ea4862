import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { defineConfig, type Plugin } from "vite";

const client = (file: string) => fileURLToPath(new URL(`../typescript/src/${file}`, import.meta.url));

// A browser downloads one of LiteRT's three variants (9.4 MB each): with threads where the page is isolated, compat
// where relaxed SIMD is missing. onnxruntime has one variant (14.2 MB) for all.
const LITERT = ["litert_wasm", "litert_wasm_threaded", "litert_wasm_compat"].flatMap((name) =>
  ["js", "wasm"].map((extension) => `@litertjs/core/wasm/${name}_internal.${extension}`),
);
const ONNX = ["mjs", "wasm"].map((extension) => `onnxruntime-web/dist/ort-wasm-simd-threaded.${extension}`);

/** The folder of the WebAssembly files; new versions get another name, because browsers keep the files. */
const WASM_FOLDER = ["@litertjs/core", "onnxruntime-web"].reduce((name, library) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${library}/package.json`, "utf-8"));
  return `${name}-${version}`;
}, "wasm");

/** Copies the WebAssembly files of the runtimes into the page. */
function copyRuntimes(): Plugin {
  return {
    name: "copy-runtimes",
    generateBundle() {
      for (const path of [...LITERT, ...ONNX]) {
        const fileName = `${WASM_FOLDER}/${path.slice(path.lastIndexOf("/") + 1)}`;
        this.emitFile({ type: "asset", fileName, source: readFileSync(`node_modules/${path}`) });
      }
    },
  };
}

/** Writes an empty list of models where `npm run models` has not yet written one. */
function listModels(): Plugin {
  return {
    name: "list-models",
    generateBundle() {
      if (!existsSync("public/models/index.json")) {
        this.emitFile({ type: "asset", fileName: "models/index.json", source: "{}\n" });
      }
    },
  };
}

/** Writes the service worker with the names of the page's files, and a version that changes with any of them. */
function writeServiceWorker(): Plugin {
  return {
    name: "write-service-worker",
    enforce: "post",
    generateBundle(_, bundle) {
      const version = createHash("sha256");
      for (const [name, file] of Object.entries(bundle).sort(([a], [b]) => (a < b ? -1 : 1))) {
        version.update(name).update(file.type === "chunk" ? file.code : file.source);
      }
      const names = Object.keys(bundle).filter((name) => name.startsWith("assets/"));
      const files = ["./", "icon.svg", "models/index.json", ...names].map((name) => JSON.stringify(name));
      const source = readFileSync("src/service_worker.js", "utf-8")
        .replace("__VERSION__", version.digest("hex").slice(0, 12))
        .replace('"__FILES__"', files.join(", "));
      this.emitFile({ type: "asset", fileName: "service_worker.js", source });
    },
  };
}

export default defineConfig({
  define: { __WASM_FOLDER__: JSON.stringify(WASM_FOLDER) },
  base: "./", // the page can lie in any folder of a site
  resolve: {
    alias: [
      { find: /^bert-client$/, replacement: client("index.ts") },
      { find: /^bert-client\/(litert|onnx)$/, replacement: client("$1.ts") },
      // the variant without a copy of its .mjs file inside
      { find: /^onnxruntime-web(\/wasm)?$/, replacement: "onnxruntime-web/wasm" },
    ],
    conditions: ["onnxruntime-web-use-extern-wasm", "module", "browser", "production"],
    dedupe: ["@litertjs/core", "onnxruntime-web"], // the client's folder may have no node_modules
  },
  plugins: [copyRuntimes(), listModels(), writeServiceWorker()],
  worker: { format: "iife" }, // LiteRT.js calls importScripts, which module workers lack
  build: { target: "es2022", modulePreload: false, assetsInlineLimit: 0, chunkSizeWarningLimit: 1000 },
  preview: {
    headers: {
      // both make the page "cross-origin isolated", without which browsers give WebAssembly no threads
      "Cross-Origin-Opener-Policy": "same-origin",
      "Cross-Origin-Embedder-Policy": "require-corp",
    },
  },
});
