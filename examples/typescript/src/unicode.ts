/** The properties of characters, which are the same on every platform. */

import { UNICODE_TABLES } from "./unicode_tables.js";

/** Names of sets of characters; `examples/make_unicode_tables.py` describes them. */
const SETS = ["space", "dropped", "single", "chinese", "mark", "blocking", "cased", "ignorable"] as const;

export type SetName = (typeof SETS)[number];

/** The bit of each set in the byte of a character. */
const BITS = Object.fromEntries(SETS.map((name, index) => [name, 1 << index])) as Record<SetName, number>;

/** The properties of characters, from the lines of `unicode_tables.ts`. */
export class Unicode {
  readonly version: string;
  readonly lower: ReadonlyMap<number, readonly number[]>;
  /** The sorting rank of the few marks that are not stripped. */
  readonly ranks: ReadonlyMap<number, number>;
  readonly #strip: ReadonlyMap<number, readonly number[]>;
  readonly #bits = new Uint8Array(0x110000);

  constructor(lines: readonly string[]) {
    const rows = new Map<string, string>();
    for (const line of lines) {
      const space = line.indexOf(" ");
      rows.set(line.slice(0, space), line.slice(space + 1));
    }
    this.version = rows.get("version")!;
    this.lower = new Map(readMap(rows.get("lower")!));
    this.#strip = new Map(readMap(rows.get("strip")!));
    for (const name of SETS) {
      for (const [start, end] of readRanges(rows.get(name)!)) {
        for (let code = start; code < end; code++) this.#bits[code]! |= BITS[name];
      }
    }
    const ranks = new Map<number, number>();
    for (let rank = 1; rows.has(`rank${rank}`); rank++) {
      for (const [start, end] of readRanges(rows.get(`rank${rank}`)!)) {
        for (let code = start; code < end; code++) ranks.set(code, rank);
      }
    }
    this.ranks = ranks;
  }

  /** Returns whether a character is in a set; a negative code, which stands for a token, is in none. */
  is(name: SetName, code: number): boolean {
    return (this.#bits[code]! & BITS[name]) !== 0;
  }

  /** Returns the canonical decomposition of a character that is not a mark, without marks. */
  strip(code: number): readonly number[] {
    if (code >= 0xac00 && code <= 0xd7a3) { // Hangul
      const [lead, rest] = [Math.floor((code - 0xac00) / 588), (code - 0xac00) % 588];
      const [vowel, tail] = [Math.floor(rest / 28), rest % 28];
      return [0x1100 + lead, 0x1161 + vowel, ...(tail ? [0x11a7 + tail] : [])];
    }
    return this.#strip.get(code) ?? [code];
  }
}

function* readRanges(items: string): Generator<[number, number]> {
  let end = 0;
  for (const item of items.split(" ")) {
    const [gap, length] = item.split(".");
    const start = end + parseInt(gap!, 36);
    end = start + parseInt(length ?? "1", 36);
    yield [start, end];
  }
}

function* readMap(items: string): Generator<[number, number[]]> {
  let code = 0;
  for (const item of items.split(" ")) {
    const [gap, values] = item.split(":");
    code += parseInt(gap!, 36);
    yield [code, values!.split(",").map((value) => parseInt(value, 36))];
  }
}

let unicode: Unicode | undefined;

/** Returns the tables, read on the first call. */
export function readUnicode(): Unicode {
  return (unicode ??= new Unicode(UNICODE_TABLES));
}
