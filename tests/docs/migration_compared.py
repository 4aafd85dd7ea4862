"""Which variables of the pages in `docs/migration/` must be equal before and after, and how closely."""

import pathlib

RECORDED = pathlib.Path(__file__).parent / "migration_recorded.json"
EXACT = 0.0
TINY = 1e-6  # measured: 9e-8 to 5e-7
SMALL = 1e-5  # measured: 9e-7 to 2e-6

# page: section: variable: tolerance
COMPARED: dict[str, dict[str, dict[str, float]]] = {
    "transformers_tf": {
        "Encoder": {"token_ids": EXACT, "hidden": SMALL, "pooled": SMALL, "attention": TINY},
        "Pipelines": {"labels": EXACT, "scores": TINY, "entities": EXACT, "answer": EXACT},
        "Masked words": {"fillings": 5e-6},  # measured: 6e-7
        "Training with fit": {"losses": 5e-6},  # measured: 7e-7
        "Saving, and opening a folder with tf_model.h5": {"logits": SMALL},
        "TFLite": {"probabilities": TINY},
    },
    "keras_hub": {
        "Backbone": {"token_ids": EXACT, "hidden": SMALL, "pooled": SMALL},
        "Pairs of texts": {"pair_ids": EXACT, "pair_segments": EXACT},
        "Classifier": {"probabilities": TINY},
        "Training with fit": {"losses": 3e-7},  # measured: 3e-8
        "Saving": {"saved": TINY},
    },
    "sentence_transformers": {
        "Vectors": {"vectors": TINY, "queries": TINY},
        "Similarity": {"similarities": TINY},
        "Training": {"losses": TINY, "tuned_vectors": 3e-6},  # measured: 9e-8, 4e-7
        "Contrastive loss": {"contrast": 3e-6},  # measured: 5e-7
    },
    "tf_hub": {
        "Tokenizer and inputs": {"token_ids": EXACT, "mask": EXACT},
        "Your own weights": {"word_ids": EXACT, "hidden": SMALL, "pooled": SMALL},
    },
    "google_scripts": {
        "Tokenizer": {"token_ids": EXACT},
        "Features of a checkpoint": {"vectors": SMALL},
        "Predictions of a fine-tuned checkpoint": {"probabilities": TINY},
        "Questions and answers": {"answers": EXACT},
    },
}
NOT_COMPARED = {  # sections with blocks of both sides: the reason
    ("keras_hub", "Masked LM"): "the head is new on both sides",
    ("sentence_transformers", "Saving"): "files",
    ("tf_hub", "Classifier and serving"): "the head is new on both sides",
    ("google_scripts", "Pretraining"): "random masks",
    ("google_scripts", "Classification"): "random order of the examples",
}
RECORDED_PAGES = ("transformers_tf", "tf_hub", "google_scripts")  # their old libraries cannot be installed with ours
LIVE_SECTIONS = {("tf_hub", "Tokenizer and inputs"), ("google_scripts", "Tokenizer")}  # but these run in the test
