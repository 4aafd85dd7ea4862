/** Loads a model and the runtime that it needs, in a worker. */

import { BertClient, type MakeRunner } from "bert-client";
import { loadLiteRtRunner } from "bert-client/litert";
import { loadOnnxRunner } from "bert-client/onnx";

import type { ModelEntry, Setup } from "./protocol.ts";
import { RememberingRunner } from "./remembering_runner.ts";

const THREADED_SCRIPT = "litert_wasm_threaded_internal.js";

export interface Model {
  client: BertClient;
  runner: RememberingRunner;
  /** How long it took to load the model. */
  milliseconds: number;
}

/**
 * Loads a model.
 *
 * @param entry the model, with its address
 * @param setup the address of the runtimes and the number of threads
 * @param show called with the fraction of the model that has arrived
 * @throws Error if a file is missing or broken
 */
export async function loadModel(
  entry: ModelEntry & { url: string },
  { wasm, numThreads }: Setup,
  show: (fraction: number) => void,
): Promise<Model> {
  const start = performance.now();
  if (entry.runtime === "tflite") prepareLiteRt(wasm);
  const options = { wasm, threads: numThreads };
  const makeRunner = entry.runtime === "tflite" ? loadLiteRtRunner(options) : loadOnnxRunner(options);
  let runner: RememberingRunner | undefined;
  const makeRemembering: MakeRunner = async (model, padId) => {
    try {
      runner = new RememberingRunner(await makeRunner(model, padId));
    } catch (error) {
      throw new Error(`the model did not start (${error}): reload the page or update the browser`);
    }
    return runner;
  };
  const read = (url: string) => readFile(url, (bytes) => show(Math.min(bytes / entry.bytes, 1)));
  const client = await BertClient.load(entry.url, makeRemembering, { read });
  return { client, runner: runner!, milliseconds: performance.now() - start };
}

/** Sets what LiteRT.js reads from global variables. */
function prepareLiteRt(wasm: string): void {
  (self as { Module?: object }).Module = {
    locateFile: (name: string) => `${wasm}/${name}`, // by default next to the script of the worker
    mainScriptUrlOrBlob: `${wasm}/${THREADED_SCRIPT}`, // of its threads
    printErr: (line: string) => (/^(INFO|WARNING):/.test(line) ? console.debug(line) : console.error(line)),
  };
  // the models run on the CPU, but LiteRT.js would start the faster GPU of the device
  const adapter = { limits: {}, features: new Set(), requestDevice: async () => null };
  Object.defineProperty(navigator, "gpu", { value: { requestAdapter: async () => adapter }, configurable: true });
}

/** Reads a file and calls `show` with the number of bytes so far. */
async function readFile(url: string, show: (bytes: number) => void): Promise<Uint8Array> {
  const response = await fetch(url).catch(() => {
    throw new Error(`${url} cannot be read: there is no network, and the file is not stored yet; go online and reload`);
  });
  if (!response.ok || !response.body) {
    throw new Error(`${url} cannot be read: HTTP status ${response.status}; expected 200: run npm run models again`);
  }
  const parts: Uint8Array[] = [];
  let length = 0;
  const reader = response.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    show((length += part.value.length));
  }
  const bytes = new Uint8Array(length);
  let offset = 0;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return bytes;
}
