"""Read and write the files with which sentence-transformers describes a `BertEmbedder`."""

import pathlib
from typing import Any

from bert_keras.checks import quote, read_field
from bert_keras.embedding_settings import MODULES, POOLINGS, SIMILARITIES, Module, check_pooling, read_module_list
from bert_keras.errors import InputError
from bert_keras.files import read_json, write_json
from bert_keras.heads.known_heads import find_head_of_class

MODEL_CONFIG = "config_sentence_transformers.json"
TRANSFORMER_CONFIG = "sentence_bert_config.json"
_SUFFIXES = {"cls": "cls_token", "lasttoken": "lasttoken"}
# of versions before 6; if several are true, their vectors are concatenated in this order
_FLAGS = {name: f"pooling_mode_{_SUFFIXES.get(name, name.removesuffix('_tokens') + '_tokens')}" for name in POOLINGS}
_POOLING_KEYS = ("pooling_mode", "include_prompt", "word_embedding_dimension", "embedding_dimension")
_MODEL_KEYS = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim", "model_type")
_DESCRIPTIVE_KEYS = ("__version__", "requirements")  # about the software that wrote the folder
# keys of the Transformer module with the values that we support; others would change the vectors
_TRANSFORMER_KEYS = {
    "transformer_task": ("feature-extraction",),
    "modality_config": ({"text": {"method": "forward", "method_output_name": "last_hidden_state"}},),
    "module_output_name": ("token_embeddings",),
    **dict.fromkeys(("model_args", "tokenizer_args", "config_args"), ({}, None)),
    **dict.fromkeys(("model_kwargs", "processor_kwargs", "config_kwargs", "processing_kwargs"), ({}, None)),
    **dict.fromkeys(("query_length", "document_length", "query_expansion"), (None,)),
}
_FREE_TRANSFORMER_KEYS = ("max_seq_length", "do_lower_case", "unpad_inputs")  # the tokenizer uses the first two
_NORMALIZE_KEYS = ("module_input_name", "module_output_name")
_REASONS = {
    "Dense": "adds a dense layer",
    "LayerNorm": "adds a layer normalization",
    "WeightedLayerPooling": "averages the layers of the encoder",
    "Router": "has several encoders",
    "Asym": "has several encoders",
}


def is_embedder(folder: pathlib.Path) -> bool:
    """Whether a sentence-transformers folder has a sentence embedder, not a cross-encoder, which scores pairs."""
    path = folder / MODEL_CONFIG
    return not path.exists() or read_json(path).get("model_type") != "CrossEncoder"


def read_modules(folder: pathlib.Path) -> tuple[dict, list[str]]:
    """Read the settings of a `BertEmbedder` from `modules.json` and the files of its modules.

    Returns:
        The arguments of `BertEmbedder` except its encoder, and a phrase for each setting that it does not have.

    Raises:
        InputError: `BertEmbedder` does not support a module, a pooling or a setting.
    """
    modules = read_module_list(folder)
    kinds = [module.kind for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        extra = next((kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")), None)
        expected = "expected Transformer, Pooling and optionally Normalize"
        if extra is None:
            raise InputError(f"{folder / MODULES} lists {', '.join(kinds) or 'nothing'}; {expected}: restore the file")
        raise InputError(
            f"{folder / MODULES} lists the module {quote(extra)}, which {_REASONS.get(extra, 'is not supported')}, so "
            f"the vectors would differ; {expected}: use sentence-transformers for this model"
        )
    _check_transformer(modules[0])
    if len(modules) == 3:
        path = modules[2].folder / "config.json"
        values = read_json(path) if path.exists() else {}
        _check_keys(values, _NORMALIZE_KEYS, path)
        for key in _NORMALIZE_KEYS:
            read_field(values, key, str, source=path, default=None, choices=("sentence_embedding",))
    settings = {**_read_pooling(modules[1].folder / "config.json"), "normalize": len(modules) == 3}
    model, lost = _read_model_config(folder / MODEL_CONFIG)
    return settings | model, lost


def write_modules(model: Any, folder: pathlib.Path, *, max_sequence_length: int | None = None) -> None:
    """Write the files for a `BertEmbedder`; for another model do nothing.

    Args:
        model: the model.
        folder: the model folder.
        max_sequence_length: maximum length in tokens, if below the number of positions of the model.
    """
    head = find_head_of_class(type(model))
    if head is None or not head.has_modules:
        return
    kinds = ["Transformer", "Pooling", *(["Normalize"] if model.normalize else [])]
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [  # version 6 has other class names but still accepts these
        {"idx": i, "name": str(i), "path": paths[i], "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    write_json(folder / MODULES, modules)
    config, names = model.encoder.config, [model.pooling] if isinstance(model.pooling, str) else list(model.pooling)
    modes = {"pooling_mode": names}
    if names == [name for name in POOLINGS if name in names]:  # in the old form, which all versions accept
        modes = {flag: name in names for name, flag in _FLAGS.items()}
    pooling = {"word_embedding_dimension": config.hidden_dim, **modes, "include_prompt": model.include_prompt}
    (folder / "1_Pooling").mkdir()
    write_json(folder / "1_Pooling/config.json", pooling)
    length = min(max_sequence_length or config.max_sequence_length, config.max_sequence_length)
    write_json(folder / TRANSFORMER_CONFIG, {"max_seq_length": length, "do_lower_case": False})  # the tokenizer does it
    write_json(
        folder / MODEL_CONFIG,
        {
            "model_type": "SentenceTransformer",
            "prompts": dict(model.prompts),
            "default_prompt_name": model.default_prompt_name,
            "similarity_fn_name": model.similarity,
        },
    )


def _check_transformer(module: Module) -> None:
    """Raise `InputError` if a setting of the Transformer module would change the vectors."""
    path = module.folder / TRANSFORMER_CONFIG
    values = read_json(path) if path.exists() else {}
    _check_keys(values, (*_TRANSFORMER_KEYS, *_FREE_TRANSFORMER_KEYS), path)
    for key, allowed in _TRANSFORMER_KEYS.items():
        value = values.get(key, allowed[0])
        if isinstance(value, dict):
            value = {name: part for name, part in value.items() if name != "trust_remote_code"}  # we never run its code
        if value not in allowed:
            raise InputError(
                f"{path} sets {key} to {quote(value)}, which would change the vectors; expected {quote(allowed[0])} or "
                "no such key: remove it if the model does not need it"
            )


def _check_keys(values: dict, known: tuple[str, ...], path: pathlib.Path) -> None:
    """Raise `InputError` if a file has an unknown key."""
    if unknown := sorted(set(values) - set(known)):
        raise InputError(
            f"{path} sets {quote(unknown[0])}, which this version does not know; expected keys among "
            f"{', '.join(known)}: remove it if the model does not need it"
        )


def _read_pooling(path: pathlib.Path) -> dict:
    values = read_json(path)
    _check_keys(values, (*_POOLING_KEYS, *_FLAGS.values()), path)
    chosen = [name for name, flag in _FLAGS.items() if read_field(values, flag, bool, source=path, default=False)]
    pooling = values.get("pooling_mode")
    if pooling is None:
        pooling = chosen or "mean"  # as in sentence-transformers
    try:
        pooling = check_pooling(pooling)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    include_prompt = read_field(values, "include_prompt", bool, source=path, default=True)
    return {"pooling": pooling, "include_prompt": include_prompt}


def _read_model_config(path: pathlib.Path) -> tuple[dict, list[str]]:
    """Read the prompts and the similarity, and list the settings that `BertEmbedder` does not have."""
    values = read_json(path) if path.exists() else {}
    read_field(values, "model_type", str, source=path, default=None, choices=("SentenceTransformer",))
    if (size := read_field(values, "truncate_dim", int, source=path, default=None, minimum=1)) is not None:
        raise InputError(
            f"{path} truncates vectors to {size} dimensions (truncate_dim), which is not supported; expected full "
            "vectors: remove the key, and truncate the vectors yourself"
        )
    prompts = read_field(values, "prompts", dict, source=path, default=None) or {}
    prompts = {name: "" if text is None else text for name, text in prompts.items()}
    settings = {
        "prompts": read_field({"prompts": prompts}, "prompts", dict[str, str], source=path),
        "default_prompt_name": read_field(values, "default_prompt_name", str, source=path, default=None),
        "similarity": read_field(values, "similarity_fn_name", str, source=path, default=None, choices=SIMILARITIES),
    }
    if (default := settings["default_prompt_name"]) is not None and default not in prompts:
        raise InputError(
            f"{path} sets default_prompt_name to {quote(default)}, but has no prompt with this name: correct it"
        )
    unknown = sorted(set(values) - {*_MODEL_KEYS, *_DESCRIPTIVE_KEYS})
    return settings, [f"{name} of {MODEL_CONFIG}, which BertEmbedder does not have" for name in unknown]
