// Copies exported models to the page:
//   npm run models -- tag=FOLDER answer=FOLDER embed=FOLDER [--to public/models]
// FOLDER is the tflite/ or onnx/ folder that `bert-keras export` wrote. Of its files, the smallest one is copied, or if
// there is one with several lengths in the same precision, that one, because it is faster for short texts. To copy
// another one, name it: tag=FOLDER/model_float16.tflite.

import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "fs";
import { dirname, join, relative, sep } from "node:path";

const TASKS = ["tag", "answer", "embed"];
const USAGE = "usage: npm run models -- tag=FOLDER answer=FOLDER embed=FOLDER [--to public/models]";

/** Returns the folder with `model.json`: a path itself, or one above a file. */
function findFolder(task, path) {
  if (!existsSync(path)) throw new Error(`${path} does not exist: check ${task}=${path}`);
  let folder = statSync(path).isFile() ? dirname(path) : path;
  const hasModel = () => existsSync(join(folder, "model.json"));
  while (folder !== path && !hasModel() && dirname(folder) !== folder) folder = dirname(folder);
  if (hasModel()) return folder;
  const expected = "expected the tflite/ or onnx/ folder that bert-keras export wrote";
  throw new Error(`${path} has no model.json; ${expected}: check ${task}=${path}`);
}

/** Returns the description of a model with one of its files, and the folder that has the file. */
function readModel(task, path) {
  const folder = findFolder(task, path);
  const description = JSON.parse(readFileSync(join(folder, "model.json"), "utf-8"));
  const { name } = description.task ?? {};
  if (name !== task) {
    const fix = TASKS.includes(name) ? `write ${name}=${path}` : "choose another model";
    throw new Error(`the task of ${path} is ${name ?? "missing"}; expected ${task}: ${fix}`);
  }
  const { files } = description;
  const wanted = relative(folder, path).replaceAll(sep, "/");
  const file = wanted ? files.find((one) => one.path === wanted) : chooseFile(files);
  if (!file) {
    const names = files.map((one) => one.path).join(", ");
    throw new Error(`model.json of ${folder} does not list ${path}; expected one of ${names}: choose one of these`);
  }
  return { description: { ...description, files: [file] }, folder };
}

/** Returns the smallest file, or the one with the most lengths among those of its precision. */
function chooseFile(files) {
  const countLengths = (file) => Object.keys(file.signatures).length;
  const precise = files.filter((file) => file.quantization === files[0].quantization);
  return precise.reduce((best, file) => (countLengths(file) > countLengths(best) ? file : best));
}

/** Copies a model to `to/TASK-HASH` and returns its entry in the list of models. */
function copyModel(task, { description, folder }, to) {
  const [file] = description.files;
  const content = `${JSON.stringify(description, null, 1)}\n`;
  const hash = createHash("sha256").update(content).update(readFileSync(join(folder, file.path)));
  hash.update(readFileSync(join(folder, description.tokenizer.vocabulary)));
  // browsers keep a model forever; another model gets another address
  const target = `${task}-${hash.digest("hex").slice(0, 8)}`;
  for (const old of readdirSync(to)) if (old.startsWith(`${task}-`)) rmSync(join(to, old), { recursive: true });
  for (const name of [file.path, description.tokenizer.vocabulary]) {
    mkdirSync(dirname(join(to, target, name)), { recursive: true });
    copyFileSync(join(folder, name), join(to, target, name));
  }
  writeFileSync(join(to, target, "model.json"), content);
  const { name, runtime } = description;
  return { folder: target, name, runtime, bytes: file.bytes, quantization: file.quantization };
}

function main(args) {
  let to = "public/models";
  const models = [];
  for (let index = 0; index < args.length; index++) {
    const [, task, path] = /^(\w+)=(.+)$/s.exec(args[index]) ?? [];
    if (args[index] === "--to" && index + 1 < args.length) to = args[++index];
    else if (TASKS.includes(task)) models.push([task, readModel(task, path)]);
    else throw new Error(`${args[index]} is unknown; expected TASK=FOLDER, TASK one of ${TASKS.join(", ")}\n${USAGE}`);
  }
  if (models.length === 0) throw new Error(`no model was given\n${USAGE}`);
  mkdirSync(to, { recursive: true });
  const list = join(to, "index.json");
  const entries = existsSync(list) ? JSON.parse(readFileSync(list, "utf-8")) : {};
  for (const [task, model] of models) {
    const { name, bytes, runtime } = (entries[task] = copyModel(task, model, to));
    console.log(`${task}: ${name}, ${(bytes / 1e6).toFixed(1)} MB, ${runtime}`);
  }
  writeFileSync(list, `${JSON.stringify(entries, null, 1)}\n`);
}

try {
  main(process.argv.slice(2));
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
}
