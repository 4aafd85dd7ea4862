// Runs an exported file in MediaPipe: the labels of a text, or the similarity of two texts.

import { FilesetResolver, TextClassifier, TextEmbedder } from "./node_modules/@mediapipe/tasks-text/text_bundle.mjs";

const WASM = "./node_modules/@mediapipe/tasks-text/wasm";
const MAX_ANSWERS = 10;

const find = (id) => document.getElementById(id);
let answer; // the open file, as a function from the texts of the page to lines of answers

/** Opens a file, and returns a function from two texts to lines of answers; embedders have no labels. */
async function open(content) {
  const files = await FilesetResolver.forTextTasks(WASM);
  const options = { baseOptions: { modelAssetBuffer: content } };
  const classifier = await TextClassifier.createFromOptions(files, { ...options, maxResults: MAX_ANSWERS });
  if (classifier.classify("").classifications[0].categories[0].categoryName) {
    return { isEmbedder: false, run: (text) => listCategories(classifier.classify(text)) };
  }
  classifier.close();
  const embedder = await TextEmbedder.createFromOptions(files, options);
  return { isEmbedder: true, run: (text, other) => compare(embedder, text, other) };
}

function listCategories({ classifications: [{ categories }] }) {
  return categories.map(({ categoryName, score }) => `${categoryName}: ${score.toFixed(4)}`);
}

function compare(embedder, text, other) {
  const [one, two] = [text, other].map((each) => embedder.embed(each).embeddings[0]);
  return [`cosine similarity: ${TextEmbedder.cosineSimilarity(one, two).toFixed(4)}`];
}

function show() {
  if (!answer) return;
  const start = performance.now();
  const lines = answer(find("text").value, find("other").value);
  find("status").textContent = `answered in ${(performance.now() - start).toFixed(1)} ms`;
  find("answers").replaceChildren(
    ...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })),
  );
}

find("file").addEventListener("change", async ({ target }) => {
  const [file] = target.files;
  if (!file) return;
  answer = undefined;
  find("answers").replaceChildren();
  find("status").textContent = `opening ${file.name} ...`;
  try {
    const opened = await open(new Uint8Array(await file.arrayBuffer()));
    find("second").hidden = !opened.isEmbedder;
    answer = opened.run;
    show();
  } catch (error) {
    console.debug(error);
    find("status").textContent =
      `MediaPipe cannot run ${file.name}; expected a classifier of single texts or an embedder with one length: ` +
      "open other files with a client in examples/";
  }
});
for (const id of ["text", "other"]) find(id).addEventListener("input", show);
