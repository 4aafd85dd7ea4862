/** BERT's tokenizer: from text to token ids, and the range of the text that became each token. */

import { readUnicode, type Unicode } from "./unicode.js";

/** A token: its id, and the ranges of UTF-16 units that became it and its word. */
export interface Token {
  id: number;
  start: number;
  end: number;
  wordStart: number;
  wordEnd: number;
}

/** The `tokenizer` of `model.json`. */
export interface TokenizerSettings {
  vocabulary: string;
  lowercase: boolean;
  strip_accents: boolean;
  tokenize_chinese_chars: boolean;
  max_input_chars_per_word: number;
  text_rules: string;
  unicode_version: string;
  additional_special_tokens: string[];
  added_tokens: string[];
  pad_id: number;
  unk_id: number;
  cls_id: number;
  sep_id: number;
  mask_id: number;
}

/** A character of the normalized text and its range in the original text; -1 - id stands for a whole token. */
interface Letter {
  code: number;
  start: number;
  end: number;
}

const SPACE = 0x20;
const REPLACEMENT = 0xfffd;
const CAPITAL_SIGMA = 0x3a3;
const FINAL_SIGMA = 0x3c2;

/** Finds whole tokens in characters: the leftmost match, and of those the longest. */
class TokenSearch {
  readonly #tokens = new Map<number, { codes: number[]; id: number }[]>();

  constructor(tokens: readonly { codes: number[]; id: number }[]) {
    for (const token of [...tokens].sort((a, b) => b.codes.length - a.codes.length)) {
      const first = token.codes[0]!;
      this.#tokens.set(first, [...(this.#tokens.get(first) ?? []), token]);
    }
  }

  /** Returns the letters with one letter for each token. */
  replace(letters: Letter[]): Letter[] {
    if (this.#tokens.size === 0) return letters;
    const found: Letter[] = [];
    for (let place = 0; place < letters.length; ) {
      const letter = letters[place]!;
      const token = this.#tokens
        .get(letter.code)
        ?.find(({ codes }) => codes.every((code, index) => letters[place + index]?.code === code));
      const length = token?.codes.length ?? 1;
      found.push(token ? { code: -1 - token.id, start: letter.start, end: letters[place + length - 1]!.end } : letter);
      place += length;
    }
    return found;
  }
}

/**
 * BERT's tokenizer, which returns the token ids of `bert_keras.BertTokenizer` for every text.
 *
 * Half a surrogate pair counts as U+FFFD, which is dropped.
 */
export class Tokenizer {
  readonly padId: number;
  readonly clsId: number;
  readonly sepId: number;
  readonly #settings: TokenizerSettings;
  readonly #unicode: Unicode = readUnicode();
  readonly #ids: ReadonlyMap<string, number>;
  readonly #longest: number;
  readonly #specialTokens: TokenSearch;
  readonly #addedTokens: TokenSearch;

  /**
   * @param vocabulary the tokens in the order of their ids
   * @param settings the `tokenizer` of `model.json`
   * @throws Error if this client does not have the model's text rules or Unicode version
   */
  constructor(vocabulary: readonly string[], settings: TokenizerSettings) {
    if (settings.text_rules !== "bert") {
      throw new Error(
        `the model's text rules are '${settings.text_rules}'; this client has 'bert': run it in MediaPipe`,
      );
    }
    if (settings.unicode_version !== this.#unicode.version) {
      throw new Error(
        `the model has Unicode ${settings.unicode_version}; this client has ${this.#unicode.version}: use the ` +
          "client of the release that exported the model",
      );
    }
    [this.padId, this.clsId, this.sepId] = [settings.pad_id, settings.cls_id, settings.sep_id];
    this.#settings = settings;
    this.#ids = new Map(vocabulary.map((token, index) => [token, index]));
    this.#longest = vocabulary.reduce((longest, token) => Math.max(longest, token.length), 0);
    this.#specialTokens = new TokenSearch(
      settings.additional_special_tokens.map((token) => ({
        codes: readLetters(token).map((letter) => letter.code),
        id: this.#ids.get(token)!,
      })),
    );
    this.#addedTokens = new TokenSearch(
      settings.added_tokens.map((token) => ({
        codes: this.#normalize(readLetters(token), false).map((letter) => letter.code),
        id: this.#ids.get(token)!,
      })),
    );
  }

  /** Returns the tokens of a text, without [CLS] and [SEP]. */
  tokenize(text: string): Token[] {
    const letters = this.#normalize(this.#specialTokens.replace(readLetters(text)), true);
    const tokens: Token[] = [];
    let word: Letter[] = [];
    const endWord = () => {
      if (word.length > 0) this.#splitWord(word, tokens);
      word = [];
    };
    for (const letter of this.#addedTokens.replace(letters)) {
      const { code, start, end } = letter;
      if (code < 0) {
        endWord();
        tokens.push({ id: -1 - code, start, end, wordStart: start, wordEnd: end });
      } else if (code === SPACE) {
        endWord();
      } else if (this.#isSingle(code)) {
        endWord();
        this.#splitWord([letter], tokens);
      } else {
        word.push(letter);
      }
    }
    endWord();
    return tokens;
  }

  #isSingle(code: number): boolean {
    return (
      this.#unicode.is("single", code) ||
      (this.#settings.tokenize_chinese_chars && this.#unicode.is("chinese", code))
    );
  }

  /** Drops control characters, folds case and strips accents; white space becomes a space. */
  #normalize(letters: Letter[], findsSigma: boolean): Letter[] {
    const unicode = this.#unicode;
    const { lowercase, strip_accents: stripAccents } = this.#settings;
    const found: Letter[] = [];
    const groups: number[] = []; // marks do not move from one group to another
    let group = 0;
    letters.forEach(({ code, start, end }, place) => {
      if (unicode.is("dropped", code)) return;
      let lowered: readonly number[] = [code];
      if (unicode.is("space", code)) {
        lowered = [SPACE];
      } else if (lowercase) {
        const isFinal = findsSigma && code === CAPITAL_SIGMA && this.#isFinalSigma(letters, place);
        lowered = isFinal ? [FINAL_SIGMA] : (unicode.lower.get(code) ?? lowered);
      }
      for (const one of lowered) {
        if (!stripAccents) {
          found.push({ code: one, start, end });
        } else if (unicode.is("mark", one)) {
          if (unicode.is("blocking", one)) group++;
        } else {
          for (const part of unicode.strip(one)) {
            if (!unicode.ranks.has(part)) group++;
            found.push({ code: part, start, end });
            groups.push(group);
          }
        }
      }
    });
    if (stripAccents) this.#sortMarks(found, groups);
    return found;
  }

  /** Returns whether the capital sigma at `place` ends a word, by Unicode's rule Final_Sigma. */
  #isFinalSigma(letters: Letter[], place: number): boolean {
    return this.#isNextCased(letters, place, -1) && !this.#isNextCased(letters, place, 1);
  }

  #isNextCased(letters: Letter[], place: number, step: 1 | -1): boolean {
    for (let next = place + step; next >= 0 && next < letters.length; next += step) {
      const { code } = letters[next]!;
      if (!this.#unicode.is("ignorable", code) && !this.#unicode.is("dropped", code)) {
        return this.#unicode.is("cased", code);
      }
    }
    return false;
  }

  /** Sorts the few marks that are not stripped by their class, as NFD does; those that move share one range. */
  #sortMarks(letters: Letter[], groups: readonly number[]): void {
    const ranks = letters.map((letter) => this.#unicode.ranks.get(letter.code) ?? 0);
    let end: number;
    for (let start = 0; start < letters.length; start = end) {
      end = start + 1;
      while (end < letters.length && ranks[start] && ranks[end] && groups[end] === groups[start]) end++;
      if (end - start === 1) continue;
      const before = letters.slice(start, end);
      const order = [...before.keys()].sort((a, b) => ranks[start + a]! - ranks[start + b]!);
      const moved = before.filter((_, index) => order[index] !== index);
      const first = moved.reduce((least, letter) => Math.min(least, letter.start), Infinity);
      const last = moved.reduce((most, letter) => Math.max(most, letter.end), 0);
      order.forEach((other, index) => {
        if (other !== index) letters[start + index] = { code: before[other]!.code, start: first, end: last };
      });
    }
  }

  /** Appends the WordPiece tokens of a word: each the longest in the vocabulary; [UNK] if there is none. */
  #splitWord(word: Letter[], tokens: Token[]): void {
    const range = { wordStart: word[0]!.start, wordEnd: word.at(-1)!.end };
    const characters = word.map((letter) => String.fromCodePoint(letter.code));
    const found: Token[] = [];
    let start = word.length <= this.#settings.max_input_chars_per_word ? 0 : word.length;
    while (start < word.length) {
      const { id, end } = this.#findLongest(characters, start);
      if (id === undefined) {
        found.length = 0;
        break;
      }
      found.push({ id, start: word[start]!.start, end: word[end - 1]!.end, ...range });
      start = end;
    }
    if (found.length === 0) {
      found.push({ id: this.#settings.unk_id, start: range.wordStart, end: range.wordEnd, ...range });
    }
    tokens.push(...found);
  }

  /** Returns the id and the end of the longest token that begins at `start`. */
  #findLongest(characters: readonly string[], start: number): { id?: number; end: number } {
    let end = Math.min(characters.length, start + this.#longest);
    let token = (start ? "##" : "") + characters.slice(start, end).join("");
    for (; end > start; end--) {
      const id = this.#ids.get(token);
      if (id !== undefined) return { id, end };
      token = token.slice(0, token.length - characters[end - 1]!.length);
    }
    return { end };
  }
}

/** Returns the characters of a text; half a surrogate pair is U+FFFD. */
function readLetters(text: string): Letter[] {
  const letters: Letter[] = [];
  let start = 0;
  for (const character of text) {
    const code = character.codePointAt(0)!;
    const end = start + character.length;
    letters.push({ code: code >= 0xd800 && code <= 0xdfff ? REPLACEMENT : code, start, end });
    start = end;
  }
  return letters;
}

/** Returns the ranges of a text's words: white space ends a word, each punctuation or Chinese character is one. */
export function splitWords(text: string): [number, number][] {
  const unicode = readUnicode();
  const words: [number, number][] = [];
  let wordStart = 0;
  let isVisible = false; // whether the word has a character that is not dropped
  for (const { code, start, end } of [...readLetters(text), { code: SPACE, start: text.length, end: text.length }]) {
    const isSingle = unicode.is("single", code) || unicode.is("chinese", code);
    if (isSingle || unicode.is("space", code)) {
      if (isVisible) words.push([wordStart, start]);
      if (isSingle) words.push([start, end]);
      wordStart = end;
      isVisible = false;
    } else {
      isVisible ||= !unicode.is("dropped", code);
    }
  }
  return words;
}
