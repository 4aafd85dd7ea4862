/**
 * Prints by how many bytes the memory grew while a model answered thousands of texts, for the tests of bert_keras.
 *
 * Three texts are answered at the same time. `num_different` counts answers that differ from the first ones.
 *
 * node --expose-gc watch_memory.mjs FOLDER
 */

import { loadClient } from "./load_client.mjs";

const TEXTS = ["the cat sat on a mat", "dog", "every dog ran off with its red hat"];
const NUM_ROUNDS = 10_000;
const client = await loadClient(process.argv[2]);
const expected = [];
for (const text of TEXTS) expected.push(JSON.stringify(await client.answer(text)));
let numDifferent = 0;

/** Returns the used memory, including that of WebAssembly, after this number of rounds. */
async function answerTexts(numRounds) {
  for (let round = 0; round < numRounds; round++) {
    const answers = await Promise.all(TEXTS.map((text) => client.answer(text)));
    numDifferent += answers.filter((answer, index) => JSON.stringify(answer) !== expected[index]).length;
  }
  globalThis.gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const before = await answerTexts(300);
const after = await answerTexts(NUM_ROUNDS);
console.log(JSON.stringify({ num_different: numDifferent, bytes: after - before }));
await client.close();
