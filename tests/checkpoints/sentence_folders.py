"""Write tiny folders of sentence-transformers with the library itself, in the styles of popular models."""

import json
import pathlib

import numpy as np

WORDS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "query", "passage", ":", "the", "cat", "sat", "on", "mat"),
    *("represent", "this", "sentence", "for", "searching", "play", "##ing", "The", "Cat", "caf", "##é", "naive"),
    *map(chr, range(ord("a"), ord("z") + 1)),
    *(f"##{chr(letter)}" for letter in range(ord("a"), ord("z") + 1)),
)
SIZES = {
    "vocab_size": len(WORDS),
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 24,
}
QUERY = "Represent this sentence for searching: "
TEXTS = ("The cat sat on the mat", "", "a naive café", "Cats playing " * 9, "represent: query")
STYLES = {  # pooling, normalize, prompts, other settings
    "bge": {"pooling": "cls", "prompts": {"query": QUERY, "document": ""}},
    "e5": {"pooling": "mean", "prompts": {"query": "query: ", "passage": "passage: "}},
    "gte": {"pooling": "mean", "normalize": False},
    "mxbai": {"pooling": "cls", "normalize": False, "prompts": {"query": QUERY, "passage": ""}, "default": "query"},
    "arctic": {"pooling": "cls", "prompts": {"query": QUERY}, "similarity": "dot"},
    "instructor": {"pooling": "mean", "prompts": {"query": QUERY, "x": "passage"}, "include_prompt": False},
    "default_without_its_prompt": {
        "pooling": ("cls", "lasttoken"),
        "prompts": {"query": "query: "},
        "default": "query",
        "include_prompt": False,
    },
    "every_pooling": {"pooling": ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")},
    "another_order": {"pooling": ("mean", "cls"), "normalize": False},
    "lower_case": {"pooling": "mean", "tokenizer": {"do_lower_case": False}, "lower": True},
    "lower_case_without_accents": {
        "pooling": "mean",
        "tokenizer": {"do_lower_case": False, "strip_accents": True},
        "lower": True,
    },
}


def write_style(style: str, folder: pathlib.Path) -> None:
    """Write a tiny model of a style with random weights."""
    write_folder(folder, **STYLES[style])


def write_folder(
    folder: pathlib.Path,
    *,
    pooling: str | tuple[str, ...],
    normalize: bool = True,
    prompts: dict[str, str] | None = None,
    default: str | None = None,
    include_prompt: bool = True,
    similarity: str | None = None,
    tokenizer: dict | None = None,
    lower: bool = False,
) -> None:
    """Write a tiny model with these settings; sentence-transformers saves no `vocab.txt`."""
    import sentence_transformers
    import transformers
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    from tests.twins import perturb_twin

    base = folder.with_name(f"{folder.name}_base")
    base.mkdir()
    (base / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS), encoding="utf-8")
    transformers.BertTokenizer(vocab=str(base / "vocab.txt"), **(tokenizer or {})).save_pretrained(base)
    twin = transformers.BertModel(transformers.BertConfig(**SIZES)).eval()
    perturb_twin(twin)
    twin.save_pretrained(base)
    modules = [Transformer(str(base)), Pooling(SIZES["hidden_size"], pooling, include_prompt=include_prompt)]
    theirs = sentence_transformers.SentenceTransformer(
        modules=[*modules, *([Normalize()] if normalize else [])],
        prompts=prompts,
        default_prompt_name=default,
        similarity_fn_name=similarity,
        device="cpu",
    )
    theirs.save(str(folder), create_model_card=False)
    if lower:
        edit_json(folder / "sentence_bert_config.json", do_lower_case=True)


def convert_to_old_layout(folder: pathlib.Path) -> None:
    """Convert a folder to the layout before version 2: encoder in `0_Transformer`, old names, an empty config."""
    home = folder / "0_Transformer"
    home.mkdir()
    for path in list(folder.iterdir()):
        if path.is_file() and path.name not in ("modules.json", "config_sentence_transformers.json"):
            path.rename(home / path.name)
    modules = json.loads((folder / "modules.json").read_text())
    for module in modules:
        module["type"] = f"sentence_transformers.models.{module['type'].rpartition('.')[2]}"
    modules[0]["path"] = home.name
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config.json").write_text(json.dumps({"__version__": "1.1.0"}))


def edit_json(path: pathlib.Path, **changes) -> None:
    """Change keys of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def list_prompts(theirs) -> list[dict]:
    """Return all ways to select a prompt of a model, as keyword arguments of `encode`."""
    return [{}, {"prompt": "this: "}, {"prompt": ""}, *({"prompt_name": name} for name in theirs.prompts)]


def encode_texts(theirs, texts, **prompt) -> np.ndarray:
    """Return the vectors of texts, encoded one by one, so without padding."""
    return np.concatenate([theirs.encode([text], **prompt) for text in texts])
