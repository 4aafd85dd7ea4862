"""What BERT is fine-tuned for: classes, tags, answers, sentence vectors. Examples to rows, and logits to answers."""
