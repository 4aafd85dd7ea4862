/** The page's side of the worker that runs the models. */

import type { AnswerReply, ModelList, Reply, Request, Setup, TaskName } from "./protocol.ts";

const MAX_THREADS = 4; // a model of 23 MB gains nothing from more

/** Shows how far a request is: the fraction of the model that is loaded, then the number of texts or windows read. */
export interface Progress {
  loading(fraction: number): void;
  working(done: number, total: number | null): void;
}

interface Waiting {
  resolve(answer: AnswerReply | null): void;
  reject(error: Error): void;
  progress: Progress;
  task: TaskName;
}

export class Engine {
  readonly numThreads: number;
  private readonly worker: Worker;
  private readonly waiting = new Map<number, Waiting>();
  private lastId = 0;

  /**
   * @param models the models of the page
   * @param base the address of the page
   */
  constructor(models: ModelList, base: string) {
    this.numThreads = self.crossOriginIsolated ? Math.min(navigator.hardwareConcurrency || 1, MAX_THREADS) : 1;
    this.worker = new Worker(new URL("./worker.ts", import.meta.url));
    this.worker.onmessage = (event: MessageEvent<Reply>) => this.receive(event.data);
    this.worker.onerror = (event) => this.fail(new Error(event.message || "the worker did not start: reload the page"));
    const located = Object.entries(models).map(([task, model]) => [
      task,
      { ...model, url: new URL(`models/${model.folder}`, base).href },
    ]);
    const wasm = new URL(__WASM_FOLDER__, base).href;
    this.post({ kind: "setup", models: Object.fromEntries(located), wasm, numThreads: this.numThreads });
  }

  /** Answers the texts of a task. A later request for the same task supersedes this one, which then gives null. */
  request<T extends TaskName>(task: T, texts: string[], progress: Progress): Promise<AnswerReply<T> | null> {
    const id = ++this.lastId;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as Waiting["resolve"], reject, progress, task });
      this.post({ kind: "request", id, task, texts });
    });
  }

  private post(message: Setup | Request): void {
    this.worker.postMessage(message);
  }

  private receive(reply: Reply): void {
    if (reply.kind === "loading") {
      for (const one of this.waiting.values()) if (one.task === reply.task) one.progress.loading(reply.fraction);
      return;
    }
    const waiting = this.waiting.get(reply.id);
    if (reply.kind === "working") {
      waiting?.progress.working(reply.done, reply.total);
      return;
    }
    this.waiting.delete(reply.id);
    if (reply.kind === "answer") waiting?.resolve(reply);
    else if (reply.kind === "superseded") waiting?.resolve(null);
    else waiting?.reject(new Error(reply.message));
  }

  private fail(error: Error): void {
    for (const one of this.waiting.values()) one.reject(error);
    this.waiting.clear();
  }
}

declare const __WASM_FOLDER__: string;
