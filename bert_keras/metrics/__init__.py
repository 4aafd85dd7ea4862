"""From predictions to scores: what a fine-tuned model is worth, as its field counts it."""
