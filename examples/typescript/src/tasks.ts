/** From the model's outputs to answers, with the keys of `bert_keras.Predictor`. */

import { findBestWindows, type Window } from "./windows.js";

/** The outputs of a sequence of S tokens, keyed by name; an output of shape (S, C) has position p at p * C. */
export type Outputs = Readonly<Record<string, Float32Array>>;

/** The `task` of `model.json`. */
export type Task = ClassifyTask | TagTask | AnswerTask | EmbedTask;

export interface ClassifyTask {
  name: "classify";
  problem: "single_label" | "multi_label" | "regression";
  has_pairs: boolean;
  labels: string[];
  threshold: number;
  max_sequence_length: number;
  window_overlap: number | null;
}

export interface TagTask {
  name: "tag";
  labels: string[];
  scheme: "IOB2" | "none";
  max_sequence_length: number;
  window_overlap: number | null;
}

export interface AnswerTask {
  name: "answer";
  max_sequence_length: number;
  window_overlap: number;
  max_question_length: number;
  max_answer_length: number;
  num_best: number;
  num_logits: number;
  allows_null: boolean;
  null_threshold: number;
}

export interface EmbedTask {
  name: "embed";
  max_sequence_length: number;
  prompt: string;
}

/** The class of a text. */
export interface LabelAnswer {
  label: string;
  probability: number;
  /** In the order of the task's labels. */
  probabilities: number[];
}

/** The classes of a text that can have several or none. */
export interface LabelsAnswer {
  labels: string[];
  /** In the order of the task's labels. */
  probabilities: number[];
}

/** The value of a text, such as the similarity of a pair. */
export interface ValueAnswer {
  value: number;
}

/** A tagged part of a text; `text.slice(start, end)` is its text. */
export interface Entity {
  label: string;
  text: string;
  start: number;
  end: number;
  probability: number;
}

/** The tag of each word, and the entities; or with the scheme "none", the words. */
export interface TagAnswer {
  tags: string[];
  entities?: Entity[];
  words?: Entity[];
}

/** An answer in a context; `context.slice(start, end)` is its text. */
export interface Span {
  answer: string;
  score: number;
  start: number;
  end: number;
  probability: number;
}

/** The answer to a question, "" if there is none; its alternatives are under `best`. */
export interface SpanAnswer {
  answer: string;
  score: number;
  start: number | null;
  end: number | null;
  probability: number | null;
  null_score: number;
  best: Span[];
}

/** The vector of a text. */
export interface EmbeddingAnswer {
  embedding: number[];
}

/** The similarity of two texts. */
export interface CosineAnswer {
  cosine: number;
}

export type Answer =
  | LabelAnswer
  | LabelsAnswer
  | ValueAnswer
  | TagAnswer
  | SpanAnswer
  | EmbeddingAnswer
  | CosineAnswer;

const MIN_PROBABILITY = 1e-30; // so that there is a logarithm

/** Returns the softmax, in float64. */
export function softmax(logits: Iterable<number>): number[] {
  const values = Array.from(logits);
  const highest = maximum(values);
  const exponentials = values.map((value) => Math.exp(value - highest));
  const total = sum(exponentials);
  return exponentials.map((value) => value / total);
}

/** Returns the label, the labels or the value of a text, whose windows are averaged. */
export function classify(outputs: readonly Outputs[], task: ClassifyTask): LabelAnswer | LabelsAnswer | ValueAnswer {
  const all = outputs.map((one) => getLogits(one, task.problem));
  const logits = all[0]!.map((_, index) => sum(all.map((one) => one[index]!)) / all.length);
  if (task.problem === "regression") return { value: logits[0]! };
  if (task.problem === "multi_label") {
    const probabilities = logits.map((value) => 1 / (1 + Math.exp(-value)));
    return { labels: task.labels.filter((_, index) => probabilities[index]! >= task.threshold), probabilities };
  }
  const probabilities = softmax(logits);
  const best = findMaximum(probabilities);
  return { label: task.labels[best]!, probability: probabilities[best]!, probabilities };
}

/** Returns a classifier's logits `(C,)`; a TFLite file has probabilities, from which they follow up to a constant. */
function getLogits(outputs: Outputs, problem: ClassifyTask["problem"]): number[] {
  if (outputs.logits) return Array.from(outputs.logits);
  if (problem === "regression") return Array.from(outputs.scores!);
  const log = (value: number) => Math.log(Math.max(value, MIN_PROBABILITY));
  return Array.from(outputs.probabilities!, (value) =>
    problem === "multi_label" ? log(value) - log(1 - Math.max(value, MIN_PROBABILITY)) : log(value),
  );
}

/**
 * Returns the tag of each word, predicted at its first token, and the entities.
 *
 * @param text the text
 * @param words the ranges of its words, which were joined by spaces
 */
export function tag(
  text: string,
  words: readonly (readonly [number, number])[],
  windows: readonly Window[],
  outputs: readonly Outputs[],
  task: TagTask,
): TagAnswer {
  const outside = task.labels.includes("O") ? "O" : task.labels[0]!;
  const tags = words.map(() => outside);
  const probabilities = words.map(() => 0);
  let word = -1;
  let nextStart = 0; // of the word after `word`, among the words joined by spaces
  findBestWindows(windows).forEach((index, token) => {
    const { first, offset, tokens } = windows[index]!;
    if (tokens[token - first]!.start < nextStart) return; // not the first token of a word
    while (tokens[token - first]!.start >= nextStart) {
      const [start, end] = words[++word]!;
      nextStart += end - start + 1;
    }
    const begin = (offset + token - first) * task.labels.length;
    const scores = softmax(outputs[index]!.logits!.subarray(begin, begin + task.labels.length));
    const best = findMaximum(scores);
    [tags[word], probabilities[word]] = [task.labels[best]!, scores[best]!];
  });
  const makeEntity = (label: string, first: number, last: number): Entity => {
    const [start, end] = [words[first]![0], words[last - 1]![1]];
    const probability = sum(probabilities.slice(first, last)) / (last - first);
    return { label, text: text.slice(start, end), start, end, probability };
  };
  if (task.scheme === "none") return { tags, words: tags.map((label, place) => makeEntity(label, place, place + 1)) };
  return { tags, entities: findEntities(tags).map((entity) => makeEntity(...entity)) };
}

/** Returns the label and the range of words of each entity, with the leniency of `conlleval`. */
export function findEntities(tags: readonly string[]): [string, number, number][] {
  const entities: [string, number, number][] = [];
  const letters: Record<string, string> = { L: "E", U: "S" };
  let openLabel = ""; // the label of the entity that the next word may continue
  tags.forEach((name, place) => {
    const letter = letters[name[0]!] ?? name[0]!;
    const label = letter === "O" ? "" : name.slice(2) || "_";
    if ("IE".includes(letter) && openLabel === label) {
      entities.at(-1)![2] = place + 1;
    } else if (letter !== "O") {
      entities.push([label, place, place + 1]);
    }
    openLabel = "BI".includes(letter) ? label : "";
  });
  return entities;
}

/** Returns the best answers in a context, under `best`, and the chosen one. */
export function extractAnswer(
  context: string,
  windows: readonly Window[],
  outputs: readonly Outputs[],
  task: AnswerTask,
): SpanAnswer {
  const bestWindows = findBestWindows(windows);
  const spans = windows.flatMap((window, index) =>
    findSpans(window, outputs[index]!, task).filter(({ first }) => bestWindows[window.first + first] === index),
  );
  spans.sort((a, b) => b.score - a.score || b.start - a.start || b.end - a.end);
  const best = new Map<string, Span>();
  for (const { score, start, end } of spans) {
    const answer = context.slice(start, end);
    if (!best.has(answer)) best.set(answer, { answer, score, start, end, probability: 0 });
    if (best.size === task.num_best) break;
  }
  const found = [...best.values()];
  softmax(found.map((span) => span.score)).forEach((value, index) => (found[index]!.probability = value));
  const nullScore = -maximum(outputs.map((one) => -(one.start_logits![0]! + one.end_logits![0]!)));
  const isNull = !found[0] || (task.allows_null && nullScore - found[0].score > task.null_threshold);
  const chosen = isNull ? { answer: "", score: nullScore, start: null, end: null, probability: null } : found[0]!;
  return { ...chosen, null_score: nullScore, best: found };
}

/** Returns the possible answers in a window; `first` is the index of their first token in the window. */
function findSpans(
  window: Window,
  outputs: Outputs,
  task: AnswerTask,
): { first: number; score: number; start: number; end: number }[] {
  const [begin, end] = [window.offset, window.offset + window.tokens.length];
  const starts = outputs.start_logits!.subarray(begin, end);
  const ends = outputs.end_logits!.subarray(begin, end);
  const lasts = findHighest(ends, task.num_logits);
  return findHighest(starts, task.num_logits).flatMap((first) =>
    lasts
      .filter((last) => first <= last && last < first + task.max_answer_length)
      .map((last) => ({
        first,
        score: starts[first]! + ends[last]!,
        start: window.tokens[first]!.wordStart,
        end: window.tokens[last]!.wordEnd,
      })),
  );
}

/** Returns the places of the highest values, the highest first. */
function findHighest(values: Float32Array, number: number): number[] {
  return [...values.keys()].sort((a, b) => values[b]! - values[a]!).slice(0, number);
}

/** Returns the cosine of two vectors. */
export function computeCosine(first: Float32Array, second: Float32Array): number {
  const dot = (a: Float32Array, b: Float32Array) => a.reduce((total, value, index) => total + value * b[index]!, 0);
  return dot(first, second) / Math.max(Math.sqrt(dot(first, first)) * Math.sqrt(dot(second, second)), 1e-12);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function maximum(values: readonly number[]): number {
  return values.reduce((highest, value) => Math.max(highest, value), -Infinity);
}

/** Returns the place of the first highest value. */
function findMaximum(values: readonly number[]): number {
  return values.indexOf(maximum(values));
}
