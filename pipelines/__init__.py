"""Text to `tf.data` batches: corpus, vocabulary, tokenizer, packing, records, masking, task readers.

Import it as `bert_keras.pipelines`. The folder holds no state (see `docs/decisions.md`).
"""
