/** Runs ONNX files with onnxruntime-web. */

import { env, InferenceSession, Tensor } from "onnxruntime-web/wasm";
import type { MakeRunner, Runner } from "./client.js";
import type { Outputs } from "./tasks.js";

export interface OnnxOptions {
  /** The address of the folder with the `.wasm` file of `onnxruntime-web`. Default: next to its script. */
  wasm?: string | undefined;
  /** Number of threads; more than one needs a page that is cross-origin isolated. */
  threads?: number | undefined;
}

/** Returns the function that opens ONNX files. The options of the first file hold for the page. */
export function loadOnnxRunner({ wasm, threads = 1 }: OnnxOptions = {}): MakeRunner {
  return async (model) => {
    if (wasm !== undefined) env.wasm.wasmPaths = wasm.replace(/\/?$/, "/");
    env.wasm.numThreads = threads;
    return new OnnxRunner(await InferenceSession.create(model, { executionProviders: ["wasm"] }));
  };
}

/** Runs a session on one sequence of any length at a time. */
class OnnxRunner implements Runner {
  readonly #session: InferenceSession;

  constructor(session: InferenceSession) {
    this.#session = session;
  }

  async run(tokenIds: readonly number[], segmentIds: readonly number[]): Promise<Outputs> {
    const makeTensor = (values: readonly number[]) =>
      new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
    const outputs = await this.#session.run({
      input_ids: makeTensor(tokenIds),
      attention_mask: makeTensor(tokenIds.map(() => 1)),
      token_type_ids: makeTensor(segmentIds),
    });
    return Object.fromEntries(Object.entries(outputs).map(([name, tensor]) => [name, tensor.data as Float32Array]));
  }

  close(): Promise<void> {
    return this.#session.release();
  }
}
