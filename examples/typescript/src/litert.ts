/** Runs TFLite files with LiteRT.js. */

import { getGlobalLiteRtPromise, loadAndCompile, loadLiteRt, Tensor, type CompiledModel } from "@litertjs/core";
import type { MakeRunner, Runner } from "./client.js";
import type { Outputs } from "./tasks.js";

export interface LiteRtOptions {
  /** The address of the `wasm/` folder of `@litertjs/core`. */
  wasm: string;
  /** Number of threads; more than one needs a page that is cross-origin isolated. */
  threads?: number | undefined;
}

/** Returns the function that opens TFLite files. LiteRT.js is loaded with the first file, once per page. */
export function loadLiteRtRunner({ wasm, threads = 1 }: LiteRtOptions): MakeRunner {
  return async (model, padId) => {
    await (getGlobalLiteRtPromise() ?? loadLiteRt(wasm, { threads: threads > 1 }));
    const compiled = await loadAndCompile(model, { accelerator: "wasm", cpuOptions: { numThreads: threads } });
    return new LiteRtRunner(compiled, padId);
  };
}

/** Runs a compiled model on one sequence at a time, padded to a length of the file. */
class LiteRtRunner implements Runner {
  readonly #model: CompiledModel;
  readonly #padId: number;
  /** The signatures with their sequence lengths, the shortest first. */
  readonly #signatures: { name: string; length: number }[];

  constructor(model: CompiledModel, padId: number) {
    this.#model = model;
    this.#padId = padId;
    this.#signatures = Object.entries(model.signatures)
      .map(([name, signature]) => ({
        name,
        length: signature.getInputDetails().find((input) => input.name === "input_ids")!.shape[1]!,
      }))
      .sort((a, b) => a.length - b.length);
  }

  async run(tokenIds: readonly number[], segmentIds: readonly number[]): Promise<Outputs> {
    const signature = this.#signatures.find(({ length }) => length >= tokenIds.length);
    if (!signature) {
      const longest = this.#signatures.at(-1)!.length;
      throw new Error(`the sequence has ${tokenIds.length} tokens; the file allows ${longest}: make it shorter`);
    }
    const makeTensor = (values: readonly number[], padding: number) => {
      const row = new Int32Array(signature.length).fill(padding);
      row.set(values);
      return new Tensor(row, [1, signature.length]);
    };
    // LiteRT.js frees no tensor by itself
    const inputs = {
      input_ids: makeTensor(tokenIds, this.#padId),
      attention_mask: makeTensor(tokenIds.map(() => 1), 0),
      token_type_ids: makeTensor(segmentIds, 0),
    };
    try {
      const outputs = await this.#model.run(signature.name, inputs);
      const arrays = Object.entries(outputs).map(([name, tensor]) => [name, tensor.toTypedArray()]);
      Object.values(outputs).forEach((tensor) => tensor.delete());
      return Object.fromEntries(arrays);
    } finally {
      Object.values(inputs).forEach((tensor) => tensor.delete());
    }
  }

  close(): void {
    this.#model.delete();
  }
}
