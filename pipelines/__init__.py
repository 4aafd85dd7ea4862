"""Text to `tf.data` batches: corpus, vocabulary, tokenizer, packing, records, masking, readers of task files.

Start with `text/tokenizer.py` and `batches/packing.py`. Import it as `bert_keras.pipelines`; the folder holds no state
(see `docs/design/decisions.md`).
"""
