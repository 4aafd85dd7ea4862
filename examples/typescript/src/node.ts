/// <reference types="node" />
/** Lets LiteRT.js run in Node, whose script otherwise needs a browser. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, resolve } from "node:path";
import { runInThisContext } from "node:vm";

/**
 * Defines what LiteRT.js needs of a browser. Call it once, before the first file is loaded; then give
 * `loadLiteRtRunner` the path of the `wasm/` folder.
 */
export function enableLiteRtInNode(): void {
  const importScripts = (relativePath: string) => {
    const path = resolve(relativePath);
    const names = ["require", "__filename", "__dirname"];
    const code = `(function (${names.join(", ")}) { ${readFileSync(path, "utf8")}\nreturn ModuleFactory; })`;
    const makeFactory = runInThisContext(code, path);
    Object.assign(globalThis, { ModuleFactory: makeFactory(createRequire(path), path, dirname(path)) });
  };
  Object.assign(globalThis, { self: globalThis, importScripts });
}
