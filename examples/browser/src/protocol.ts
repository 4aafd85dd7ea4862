/** The messages between the page and the worker that runs the models. */

import type { Entity, SpanAnswer } from "bert-client";

export type TaskName = "tag" | "answer" | "embed";

/** An entry of `models/index.json`, which `npm run models` writes. */
export interface ModelEntry {
  folder: string;
  name: string;
  runtime: "tflite" | "onnx";
  bytes: number;
  quantization: string;
}

export type ModelList = Partial<Record<TaskName, ModelEntry>>;

/** The first message to the worker. All addresses are absolute. */
export interface Setup {
  kind: "setup";
  models: Partial<Record<TaskName, ModelEntry & { url: string }>>;
  wasm: string;
  numThreads: number;
}

/** A request with the texts of a task: tag [text], answer [question, context], embed [query, ...lines]. */
export interface Request {
  kind: "request";
  id: number;
  task: TaskName;
  texts: string[];
}

/** The task's tags, and the entities in the text. */
export interface FoundEntities {
  labels: string[];
  entities: Entity[];
}

/** The answers of the tasks. */
export interface Answers {
  tag: FoundEntities;
  answer: SpanAnswer;
  embed: number[]; // the cosine of the query and each line
}

export interface AnswerReply<T extends TaskName = TaskName> {
  kind: "answer";
  id: number;
  answer: Answers[T];
  milliseconds: number;
  /** How long it took to load the model, before this or an earlier request. */
  loadMilliseconds: number;
  /** The number of runs of the model; 0: the worker remembered the outputs. */
  numRuns: number;
}

export type Reply =
  | AnswerReply
  | { kind: "loading"; task: TaskName; fraction: number }
  | { kind: "working"; id: number; done: number; total: number | null }
  | { kind: "superseded"; id: number }
  | { kind: "error"; id: number; message: string };
