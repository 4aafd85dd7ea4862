/** Answers the page's requests. A newer request for a task supersedes an older one, also between two windows. */

import { computeCosine, type BertClient, type SpanAnswer, type TagAnswer, type TagTask } from "bert-client";

import { loadModel, type Model } from "./model_loading.ts";
import type { Answers, Reply, Request, Setup, TaskName } from "./protocol.ts";
import { Superseded } from "./remembering_runner.ts";

const SHOW_AFTER_MS = 150; // shorter work needs no progress bar
const SHOW_EVERY_MS = 50;

let setup: Setup;
const models = new Map<TaskName, Promise<Model>>();
const newest = new Map<TaskName, number>(); // the id of the newest request
let queue = Promise.resolve();

self.onmessage = (event: MessageEvent<Setup | Request>) => {
  const message = event.data;
  if (message.kind === "setup") {
    setup = message;
    return;
  }
  newest.set(message.task, message.id);
  queue = queue.then(() => handle(message)); // one at a time, so that two models do not compete for the cores
};

function post(reply: Reply): void {
  self.postMessage(reply);
}

async function handle(request: Request): Promise<void> {
  const { id, task } = request;
  try {
    checkNewest(request);
    const { client, runner, milliseconds: loadMilliseconds } = await getModel(task);
    const start = performance.now();
    runner.numRuns = 0;
    const showProgress = makeProgress(id, start);
    runner.beforeRun = async () => {
      await receiveMessages();
      checkNewest(request);
      if (task !== "embed") showProgress(runner.numRuns, null);
    };
    const answer = await computeAnswer(client, request, showProgress);
    const milliseconds = performance.now() - start;
    post({ kind: "answer", id, answer, milliseconds, loadMilliseconds, numRuns: runner.numRuns });
  } catch (error) {
    if (error instanceof Superseded) post({ kind: "superseded", id });
    else post({ kind: "error", id, message: error instanceof Error ? error.message : String(error) });
  }
}

function checkNewest({ id, task }: Request): void {
  if (newest.get(task) !== id) throw new Superseded();
}

const channel = new MessageChannel();

/** Waits until the messages that have arrived are handled. A timer would wait for 4 ms. */
function receiveMessages(): Promise<void> {
  return new Promise((resolve) => {
    channel.port1.onmessage = () => resolve();
    channel.port2.postMessage(null);
  });
}

/** Returns the function that shows how many windows or texts have been read, if that takes long. */
function makeProgress(id: number, start: number): (done: number, total: number | null) => void {
  let next = start + SHOW_AFTER_MS;
  return (done, total) => {
    if (performance.now() < next) return;
    next = performance.now() + SHOW_EVERY_MS;
    post({ kind: "working", id, done, total });
  };
}

async function computeAnswer(
  client: BertClient,
  { task, texts }: Request,
  showProgress: ReturnType<typeof makeProgress>,
): Promise<Answers[TaskName]> {
  if (task === "embed") return computeCosines(client, texts, showProgress);
  const answer = await client.answer(texts[0]!, texts[1]);
  if (task === "answer") return answer as SpanAnswer;
  const { entities, words = [] } = answer as TagAnswer;
  const { labels } = client.task as TagTask;
  return { labels, entities: entities ?? words.filter((word) => word.label !== "O") };
}

/** Returns the cosine of the first text and each other one. */
async function computeCosines(
  client: BertClient,
  texts: string[],
  showProgress: ReturnType<typeof makeProgress>,
): Promise<number[]> {
  const vectors: Float32Array[] = [];
  for (const text of texts) {
    showProgress(vectors.length, texts.length);
    vectors.push(await client.embed(text));
  }
  const [query, ...lines] = vectors;
  return lines.map((line) => computeCosine(query!, line));
}

function getModel(task: TaskName): Promise<Model> {
  let model = models.get(task);
  if (!model) {
    model = loadModel(setup.models[task]!, setup, (fraction) => post({ kind: "loading", task, fraction }));
    model.catch(() => models.delete(task)); // the next request tries again
    models.set(task, model);
  }
  return model;
}
