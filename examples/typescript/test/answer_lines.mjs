/**
 * Answers JSON lines on standard input with one line each, for the tests of bert_keras.
 *
 * `tests/examples/clients/client_process.py` describes the lines.
 */

import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";

import { readVocabulary, Tokenizer } from "../dist/index.js";
import { loadClient } from "./load_client.mjs";

let folder, file, tokenizer, client;

async function answerLine(request) {
  if (request.folder !== undefined) {
    ({ folder, file } = request);
    return {};
  }
  if (request.tokenize !== undefined) {
    tokenizer ??= await loadTokenizer();
    const tokens = tokenizer.tokenize(request.tokenize);
    const list = (name) => tokens.map((token) => token[name]);
    return {
      ids: list("id"),
      starts: list("start"),
      ends: list("end"),
      wordStarts: list("wordStart"),
      wordEnds: list("wordEnd"),
    };
  }
  client ??= await loadClient(folder, file ?? undefined);
  return client.answer(...request.answer);
}

async function loadTokenizer() {
  const { tokenizer: settings } = JSON.parse(await readFile(`${folder}/model.json`, "utf8"));
  return new Tokenizer(readVocabulary(await readFile(`${folder}/${settings.vocabulary}`)), settings);
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await answerLine(JSON.parse(line)).catch((error) => ({ error: error.message }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await client?.close();
