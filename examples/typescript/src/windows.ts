/** Sequences for the model: a text or a pair of texts, truncated or cut into windows. */

import type { Token, Tokenizer } from "./tokenizer.js";

/** A sequence for the model: `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`. */
export interface Window {
  /** S token ids, without padding. */
  tokenIds: number[];
  /** S times 0 for A or 1 for B. */
  segmentIds: number[];
  /** The tokens of B, or of A without a B, that are in this window. */
  tokens: Token[];
  /** The index of the first of them in their text. */
  first: number;
  /** The position of the first of them in the sequence. */
  offset: number;
}

export interface WindowSettings {
  /** Maximum length of a sequence in tokens, including [CLS] and [SEP]. */
  length: number;
  /**
   * Number of tokens that consecutive windows share; of a pair, the second text is cut into windows. null: a long text
   * is truncated, of a pair the longer one first.
   */
  overlap?: number | null;
  /** With windows of a pair, the maximum length of the first text in tokens. */
  maxFirstLength?: number | null;
}

/** Tokenizes a text or a pair of texts, and cuts it to sequences of at most `length` tokens. */
export function makeWindows(
  tokenizer: Tokenizer,
  text: string,
  secondText: string | undefined,
  { length, overlap = null, maxFirstLength = null }: WindowSettings,
): Window[] {
  let first = tokenizer.tokenize(text);
  if (secondText === undefined) {
    return cut(first.length, length - 2, overlap).map((range) => makeWindow(tokenizer, undefined, first, range));
  }
  const second = tokenizer.tokenize(secondText);
  const budget = length - 3;
  const half = Math.floor(budget / 2);
  if (overlap === null) {
    const numSecond = Math.min(second.length, Math.max(half, budget - first.length));
    return [makeWindow(tokenizer, first.slice(0, budget - numSecond), second, [0, numSecond])];
  }
  if (maxFirstLength !== null) first = first.slice(0, maxFirstLength);
  if (first.length + second.length > budget && first.length + overlap >= budget) {
    first = first.slice(0, Math.min(half, budget - overlap - 1));
  }
  return cut(second.length, budget - first.length, overlap).map((range) => makeWindow(tokenizer, first, second, range));
}

/** Returns the ranges of tokens of the windows of a text. */
function cut(numTokens: number, room: number, overlap: number | null): [number, number][] {
  if (overlap === null) return [[0, Math.min(numTokens, room)]];
  const step = Math.max(room - overlap, 1);
  const numWindows = 1 + Math.max(0, Math.ceil((numTokens - room) / step));
  return Array.from({ length: numWindows }, (_, index) => [index * step, Math.min(index * step + room, numTokens)]);
}

function makeWindow(
  tokenizer: Tokenizer,
  first: readonly Token[] | undefined,
  second: readonly Token[],
  [begin, end]: [number, number],
): Window {
  const tokens = second.slice(begin, end);
  const head = [tokenizer.clsId, ...(first ? [...first.map((token) => token.id), tokenizer.sepId] : [])];
  const tail = [...tokens.map((token) => token.id), tokenizer.sepId];
  const segmentIds = [...head.map(() => 0), ...tail.map(() => (first ? 1 : 0))];
  return { tokenIds: [...head, ...tail], segmentIds, tokens, first: begin, offset: head.length };
}

/**
 * Returns, for each token of the text that was cut, the index of the window in which it has the most context.
 *
 * Context is the number of tokens on the shorter side, plus 0.01 times the length of the window, as in Google's code.
 */
export function findBestWindows(windows: readonly Window[]): number[] {
  const best: number[] = [];
  const contexts: number[] = [];
  windows.forEach(({ tokens, first }, index) => {
    for (let place = 0; place < tokens.length; place++) {
      const context = Math.min(place, tokens.length - 1 - place) + 0.01 * tokens.length;
      if (context > (contexts[first + place] ?? -1)) {
        best[first + place] = index;
        contexts[first + place] = context;
      }
    }
  });
  return best;
}
