/** `BertClient`: answers texts with a model that `bert-keras export` wrote. */

import {
  classify,
  computeCosine,
  extractAnswer,
  tag,
  type Answer,
  type Outputs,
  type Task,
} from "./tasks.js";
import { splitWords, Tokenizer, type TokenizerSettings } from "./tokenizer.js";
import { makeWindows, type Window } from "./windows.js";

const FORMAT = 1; // of model.json

/** The parts of `model.json` that this client reads. */
export interface ModelDescription {
  format: number;
  name: string;
  runtime: "tflite" | "onnx";
  /** The smallest first. */
  files: { path: string; quantization: string; bytes: number }[];
  tokenizer: TokenizerSettings;
  /** null: the model has no task, so a client can only tokenize. */
  task: Task | null;
}

/** Runs a model file on one sequence at a time. */
export interface Runner {
  /**
   * Returns the outputs for a sequence.
   *
   * @param tokenIds S token ids
   * @param segmentIds S times 0 or 1
   */
  run(tokenIds: readonly number[], segmentIds: readonly number[]): Promise<Outputs>;
  /** Frees the model. */
  close(): void | Promise<void>;
}

/** Opens the bytes of a model file; `padId` is the id of [PAD]. */
export type MakeRunner = (model: Uint8Array, padId: number) => Promise<Runner>;

export interface LoadOptions {
  /** The file to run, a `path` of `model.json`. Default: the smallest one. */
  file?: string | undefined;
  /** Reads a file, such as `readFile` of "node:fs/promises". Default: `fetch`. */
  read?: ((path: string) => Promise<Uint8Array>) | undefined;
}

/** Answers texts with a model. */
export class BertClient {
  readonly tokenizer: Tokenizer;
  readonly task: Task | null;
  readonly #runner: Runner;
  #queue: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  /**
   * @param tokenizer the model's tokenizer
   * @param task the `task` of `model.json`
   * @param runner runs the model
   */
  constructor(tokenizer: Tokenizer, task: Task | null, runner: Runner) {
    this.tokenizer = tokenizer;
    this.task = task;
    this.#runner = runner;
  }

  /**
   * Loads a model from a folder with `model.json`.
   *
   * @param folder the address of the `tflite/` or `onnx/` folder that `bert-keras export` wrote
   * @param makeRunner the result of `loadLiteRtRunner` or `loadOnnxRunner`
   * @throws Error if a file is missing, or this client cannot run the model
   */
  static async load(
    folder: string,
    makeRunner: MakeRunner,
    { file, read = readWithFetch }: LoadOptions = {},
  ): Promise<BertClient> {
    const readInFolder = (path: string) => read(`${folder.replace(/\/$/, "")}/${path}`);
    const description = JSON.parse(new TextDecoder().decode(await readInFolder("model.json"))) as ModelDescription;
    checkFormat(description);
    const { files, task, tokenizer: settings } = description;
    const names = files.map((entry) => entry.path);
    const name = file ?? names[0];
    if (name === undefined || !names.includes(name)) {
      throw new Error(`model.json has no file '${name}'; expected one of ${names.join(", ")}: choose one of these`);
    }
    const [tokenizer, model] = await Promise.all([
      readInFolder(settings.vocabulary).then((bytes) => new Tokenizer(readVocabulary(bytes), settings)),
      readInFolder(name),
    ]);
    return new BertClient(tokenizer, task, await makeRunner(model, settings.pad_id));
  }

  /**
   * Answers a text, or a pair of texts: for a model that answers questions, a question and its context.
   *
   * @throws Error if a text is missing or is not wanted, or the model has no task
   */
  async answer(text: string, secondText?: string): Promise<Answer> {
    const task = this.#getTask();
    if (task.name === "embed") {
      const first = await this.embed(text);
      if (secondText === undefined) return { embedding: Array.from(first) };
      return { cosine: computeCosine(first, await this.embed(secondText)) };
    }
    const windows = this.makeWindows(text, secondText);
    const outputs = await this.#runAll(windows);
    if (task.name === "classify") return classify(outputs, task);
    if (task.name === "tag") return tag(text, splitWords(text), windows, outputs, task);
    return extractAnswer(secondText!, windows, outputs, task);
  }

  /**
   * Returns the vector of a text, `(D,)`.
   *
   * @throws Error if the model makes no vectors
   */
  async embed(text: string): Promise<Float32Array> {
    const task = this.#getTask();
    if (task.name !== "embed") {
      throw new Error(`the model's task is '${task.name}'; vectors need 'embed': use answer`);
    }
    const [outputs] = await this.#runAll(this.makeWindows(text));
    return outputs!.sentence_embedding!;
  }

  /**
   * Returns the sequences of a text or a pair of texts.
   *
   * @throws Error as `answer` does
   */
  makeWindows(text: string, secondText?: string): Window[] {
    const task = this.#getTask();
    if (task.name === "answer" && secondText === undefined) {
      throw new Error("a question needs a context, and there is none; expected a pair of texts: give both");
    }
    if (task.name === "tag" && secondText !== undefined) {
      throw new Error("tagging needs single texts, and a second text was given: leave it out");
    }
    if (task.name === "classify" && task.has_pairs && secondText === undefined) {
      throw new Error("the model classifies pairs of texts, and there is one text: give both");
    }
    if (task.name === "classify" && !task.has_pairs && secondText !== undefined) {
      throw new Error("the model classifies single texts, and a second text was given: leave it out");
    }
    if (task.name === "tag") {
      text = splitWords(text).map((range) => text.slice(...range)).join(" ");
    }
    if (task.name === "embed") text = task.prompt + text;
    return makeWindows(this.tokenizer, text, secondText, {
      length: task.max_sequence_length,
      overlap: task.name === "embed" ? null : task.window_overlap,
      maxFirstLength: task.name === "answer" ? task.max_question_length : null,
    });
  }

  /** Frees the model, after the calls that have not returned yet. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#enqueue(async () => this.#runner.close());
  }

  #getTask(): Task {
    if (this.task === null) {
      throw new Error("the model has no task, so there is nothing to answer: use tokenizer and its outputs");
    }
    return this.task;
  }

  async #runAll(windows: readonly Window[]): Promise<Outputs[]> {
    if (this.#isClosed) throw new Error("the client is closed, so it answers nothing: load the model again");
    return this.#enqueue(async () => {
      const outputs: Outputs[] = [];
      for (const { tokenIds, segmentIds } of windows) outputs.push(await this.#runner.run(tokenIds, segmentIds));
      return outputs;
    });
  }

  /** Calls a function when the calls before it have ended, because runtimes run one sequence at a time. */
  #enqueue<T>(call: () => Promise<T>): Promise<T> {
    const result = this.#queue.then(call);
    this.#queue = result.catch(() => undefined);
    return result;
  }
}

/** Returns the tokens of a vocabulary, one per line. */
export function readVocabulary(bytes: Uint8Array): string[] {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes).split("\n").slice(0, -1);
}

async function readWithFetch(address: string): Promise<Uint8Array> {
  const response = await fetch(address);
  if (!response.ok) {
    throw new Error(`${address} cannot be read: HTTP status ${response.status}; expected 200: check the folder`);
  }
  return new Uint8Array(await response.arrayBuffer());
}

function checkFormat(description: ModelDescription): void {
  if (description.format !== FORMAT) {
    throw new Error(
      `model.json has the format ${description.format}; this client reads ${FORMAT}: use the client of the release ` +
        "that exported the model",
    );
  }
}
