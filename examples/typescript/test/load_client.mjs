/** Loads a model in Node, for the test programs. */

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import { BertClient } from "../dist/index.js";
import { loadLiteRtRunner } from "../dist/litert.js";
import { enableLiteRtInNode } from "../dist/node.js";
import { loadOnnxRunner } from "../dist/onnx.js";

const WASM = fileURLToPath(new URL("../node_modules/@litertjs/core/wasm", import.meta.url));

/** Returns the client of a folder with `model.json`; `file` is the file to run, by default the smallest one. */
export async function loadClient(folder, file) {
  const { runtime } = JSON.parse(await readFile(`${folder}/model.json`, "utf8"));
  if (runtime === "onnx") return BertClient.load(folder, loadOnnxRunner(), { file, read: readFile });
  enableLiteRtInNode();
  return BertClient.load(folder, loadLiteRtRunner({ wasm: WASM }), { file, read: readFile });
}
