"""Text to `tf.data` batches: corpus, vocabulary, tokenizer, packing, records, masking, readers of task files.

Start with `text/tokenizer.py` and `batches/packing.py`. Import it as `bert_keras.pipelines`; the folder holds no state
(see `docs/design/decisions.md`).

Example:
    >>> from bert_keras.pipelines.batches.encoding import encode
    >>> tokenizer = bk.BertTokenizer.from_vocabulary("demo/vocab.txt")
    >>> encode(tokenizer, ["A text.", "Another one."], max_sequence_length=16).lengths.tolist()
    [5, 5]
"""
