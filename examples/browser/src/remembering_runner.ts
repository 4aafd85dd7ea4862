/** A runner that remembers the outputs of the sequences that it has run. */

import type { Outputs, Runner } from "bert-client";

const MAX_NUMBERS = 16e6; // 64 MB of outputs

/** Thrown by a request when a newer one has arrived. */
export class Superseded extends Error {}

/** Somebody who edits a long text changes few of its windows, and somebody who edits a query none of the lines. */
export class RememberingRunner implements Runner {
  /** The number of runs of the model. */
  numRuns = 0;
  /** Called before each run; it may throw. */
  beforeRun: () => Promise<void> = async () => {};
  private readonly known = new Map<string, Outputs>(); // the oldest first
  private numNumbers = 0;

  constructor(private readonly runner: Runner) {}

  async run(tokenIds: readonly number[], segmentIds: readonly number[]): Promise<Outputs> {
    const key = tokenIds.join() + (segmentIds.at(-1) ? `|${segmentIds.indexOf(1)}` : "");
    let outputs = this.known.get(key);
    if (outputs) {
      this.known.delete(key);
    } else {
      await this.beforeRun();
      outputs = await this.runner.run(tokenIds, segmentIds);
      this.numRuns++;
      this.numNumbers += count(outputs);
    }
    this.known.set(key, outputs); // as the newest
    for (const [oldKey, old] of this.known) {
      if (this.numNumbers <= MAX_NUMBERS) break;
      this.known.delete(oldKey);
      this.numNumbers -= count(old);
    }
    return outputs;
  }

  close(): void | Promise<void> {
    return this.runner.close();
  }
}

function count(outputs: Outputs): number {
  return Object.values(outputs).reduce((sum, array) => sum + array.length, 0);
}
