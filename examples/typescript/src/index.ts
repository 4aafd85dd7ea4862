/** Answer texts with an exported BERT in a browser or in Node. */

export * from "./client.js";
export * from "./tasks.js";
export { splitWords, Tokenizer, type Token, type TokenizerSettings } from "./tokenizer.js";
export type { Window } from "./windows.js";
