"""Templates of `tflite/README.md`, for `string.Template`."""

README = """\
# $name on devices

$summary The files run in LiteRT (TensorFlow Lite), offline, in a browser, on a phone or on an edge device. They
need neither TensorFlow nor a server.

## Files

| file | contents |
|---|---|
$file_rows

Paths and names below are those of this folder. `bert-keras export` wrote it; an export with `--overwrite` replaces it,
so put files of your own elsewhere.

## Which file

Start with `$first`$reason.

| device | file | runtime |
|---|---|---|
| Android | `$first`, on the CPU with 2 to 4 threads (the number of fast cores) | LiteRT for Android$or_mediapipe |
| iPhone | the same | LiteRT for Swift or C++ |
| browser | `$first`: a visitor downloads it once, and the browser caches it | LiteRT.js (WebAssembly) |
| Raspberry Pi and similar | `$first`, one thread per core | `ai-edge-litert` for Python, or LiteRT for C++ |
$gpu_row
Each call computes all $length tokens, however short the text is.$shorter Load the file once and keep it: loading takes
longer than an answer. Measure on your slowest device, with texts of your users.

## From text to inputs

${rules_note}1. Tokenize$tokenizing
2. Build a sequence: $sequence.
3. $long_texts
4. Pad the sequence to $length tokens. The inputs are, each of the type $input_type and the shape $input_shape:

| index | name | at a token | at padding |
|---|---|---|---|
$input_rows

Set inputs by *name*: the order of the indices is that of the graph, and tools list it differently. The signature is
$signatures.

## From outputs to answers

| index | name | type and shape |
|---|---|---|
$output_rows

$decoding

## Examples

$examples## Check your app

- `model.json` contains under `probes` texts, their `sequences` (the token ids of each window, without padding) and the
  `answer` of the original model. Compare your token ids first: they must be equal. Then compare the answers: those of
  a float32 file differ by at most 0.0001, those of smaller files a little more.
- `parity.json` contains for each file the largest difference from the original model, measured in LiteRT on 24 or
  more sequences for each length, with the size and the time of a call on the machine that exported it.

This runs the first probe in Python with LiteRT alone (`pip install ai-edge-litert numpy`), in this folder:

```python
import json
import pathlib

import numpy as np
from ai_edge_litert.interpreter import Interpreter

model = json.loads(pathlib.Path("model.json").read_text("utf-8"))
probe = model["probes"][0]
token_ids = probe["sequences"][0]
$second_text
interpreter = Interpreter("$first", num_threads=2)
run = interpreter.get_signature_runner("$signature")
length = $length
padding = [0] * (length - len(token_ids))
outputs = run(
    input_ids=np.array([token_ids + [$pad_id] * len(padding)], np.int32),
    attention_mask=np.array([[1] * len(token_ids) + padding], np.int32),
    token_type_ids=np.array([segment_ids + padding], np.int32),
)
$printing
print(probe["answer"])
```

## Other languages

Every LiteRT runtime can call the signature by its name. In Swift (`TensorFlowLiteSwift`):

```swift
let interpreter = try Interpreter(modelPath: path)  // of $first
let runner = try interpreter.signatureRunner(with: "$signature")
try runner.allocateTensors()
try runner.copy(tokenIds, toInputNamed: "input_ids")  // Data of $length Int32 each
try runner.copy(mask, toInputNamed: "attention_mask")
try runner.copy(segmentIds, toInputNamed: "token_type_ids")
try runner.invoke()
$swift_outputs
```

In C++:

```cpp
tflite::SignatureRunner* runner = interpreter->GetSignatureRunner("$signature");
runner->AllocateTensors();
std::copy_n(token_ids, $length, runner->input_tensor("input_ids")->data.i32);
std::copy_n(mask, $length, runner->input_tensor("attention_mask")->data.i32);
std::copy_n(segment_ids, $length, runner->input_tensor("token_type_ids")->data.i32);
runner->Invoke();
$cpp_outputs
```

$porting
"""

PORTING = """\
For the tokenizer, translate one of the reference clients: each is a few hundred lines without dependencies, and its
Unicode tables are a text file. Check the translation with the probes."""

PORTING_MEDIAPIPE = """\
The tokenizer is the one of MediaPipe's text tasks, which you get by calling MediaPipe. Check a tokenizer of your own
with the probes."""

GPU_ROW = "| GPU | `$file`: GPUs compute in 16 or 32 bits | LiteRT with its GPU accelerator |\n"

MEDIAPIPE_RULES = """\
This model reads text by the rules of MediaPipe's tokenizer (`text_rules` is `mediapipe` in `model.json`): $use. The
reference clients for TypeScript, Java and Python refuse it.

"""

TOKENIZING = """\
 with WordPiece and `vocab.txt` ($vocabulary_size tokens). Text $casing, and accents $accents.$own_tokens The
   settings are in `model.json` under `tokenizer`; the reference clients below implement them."""

CLIENTS = """\
The clients for TypeScript, Java and Python are in bert-keras's repository, in `examples/`. Copy one into your app: it
reads `model.json` and `vocab.txt`, tokenizes, calls the file, and decodes the answer. $ranges

### Browser (TypeScript)

Copy `examples/typescript` into your app as `bert-client`, and run `npm install` and `npm run build` there. Then
`npm install ./bert-client` in your app, and `@litertjs/core` in the version that `bert-client/package.json` names.
Serve this folder and the folder `wasm/` of `@litertjs/core`, here as `/models/$name` and `/wasm`:

```typescript
import { BertClient } from "bert-client";
import { loadLiteRtRunner } from "bert-client/litert";

const client = await BertClient.load("/models/$name", loadLiteRtRunner({ wasm: "/wasm" }));
const answer = await client.answer($texts);
// $answer
```

### Android (Kotlin or Java)

Copy the sources and resources in `examples/java/src/main` and the class `android/LiteRtRunner.java` from
`examples/java`, add `com.google.ai.edge.litert:litert` to the dependencies in Gradle, and copy this folder into the
app's assets. Then, on a background thread:

```kotlin
import bertkeras.client.BertClient
import bertkeras.client.InputStreamOpener
import bertkeras.client.android.LiteRtRunner

val runner = LiteRtRunner.fromAssets(context.assets, "tflite/$first", 4) // threads
val client = BertClient.load(InputStreamOpener { name -> context.assets.open("tflite/" + name) }, runner)
val answer = client.answer($texts)
// $answer
```

If the app downloads the folder instead, `BertClient.load(File(...), runner)` reads it from the app's files.
`LiteRtRunner` implements `Runner`, whose method `run` takes the three inputs and returns the outputs by name: write
your own to use another runtime.

### Python on an edge device

Copy `bert_client.py` and `unicode_tables.txt` from `examples/python`, and `pip install ai-edge-litert numpy`:

```python
from bert_client import BertClient

client = BertClient.load("tflite")  # this folder
answer = client.answer($texts)
# $answer
```

"""

MEDIAPIPE_CLASSIFIER = """\
### MediaPipe

The files with one length also contain what MediaPipe's `TextClassifier` needs: vocabulary, labels and tensor names. It
tokenizes by itself, so no client is needed: add `com.google.mediapipe:tasks-text` to the dependencies in Gradle, or
`pip install mediapipe`. $mediapipe_note

```kotlin
import com.google.mediapipe.tasks.text.textclassifier.TextClassifier

val classifier = TextClassifier.createFromFile(context, "$single")  // in the app's assets
val result = classifier.classify($texts).classificationResult()
for (category in result.classifications()[0].categories()) println(category.categoryName() + " " + category.score())
```

```python
from mediapipe.tasks.python.text import TextClassifier

with TextClassifier.create_from_model_path("$single") as classifier:
    for category in classifier.classify($texts).classifications[0].categories:
        print(category.category_name, category.score)
```

"""

MEDIAPIPE_EMBEDDER = """\
### MediaPipe

The files with one length also contain what MediaPipe's `TextEmbedder` needs: vocabulary and tensor names. It tokenizes
by itself, so no client is needed: add `com.google.mediapipe:tasks-text` to the dependencies in Gradle, or
`pip install mediapipe`. $mediapipe_note

```kotlin
import com.google.mediapipe.tasks.text.textembedder.TextEmbedder

val embedder = TextEmbedder.createFromFile(context, "$single")  // in the app's assets
val result = embedder.embed($texts).embeddingResult()
val vector = result.embeddings()[0].floatEmbedding()
```

```python
from mediapipe.tasks.python.text import TextEmbedder

with TextEmbedder.create_from_model_path("$single") as embedder:
    vector = embedder.embed($texts).embeddings[0].embedding
```

"""

MEDIAPIPE_DIFFERENCES = """\
It lowercases only the letters A to Z and keeps accents, so texts with other capitals or accents get other
tokens than here."""

NO_TASK = """\
The model has no task, so there are no answers, only outputs: the examples under "Check your app" and "Other languages"
show how to get them. The tokenizers of the reference clients (`examples/typescript`, `examples/java` and
`examples/python` in bert-keras's repository) make the inputs.

"""
