"""Poolings and prompts of sentence embedders, with the names that sentence-transformers uses."""

from collections.abc import Mapping, Sequence

from bert_keras.checks import check_value, format_names, quote
from bert_keras.errors import InputError

POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


def check_pooling(pooling: str | Sequence[str]) -> str | tuple[str, ...]:
    """Return one pooling as its name, several as a tuple of names.

    Raises:
        InputError: the list is empty, or a pooling is unknown.
    """
    names = (pooling,) if isinstance(pooling, str) or not isinstance(pooling, Sequence) else tuple(pooling)
    if not names or any(name not in POOLINGS for name in names):
        raise InputError(
            f"pooling is {quote(pooling)}; expected {', '.join(POOLINGS)}, or a list of these: choose from them"
        )
    return names[0] if len(names) == 1 else names


def check_prompts(prompts: Mapping[str, str] | None, default_name: str | None) -> dict[str, str]:
    """Return the prompts, keyed by name, as a plain dict.

    Raises:
        InputError: a prompt is not a string, or the default prompt does not exist.
    """
    prompts = check_value(dict(prompts or {}), dict[str, str], name="prompts", source="the embedder")
    if default_name is not None:
        get_prompt(prompts, default_name)
    return prompts


def get_prompt(prompts: Mapping[str, str], name: str) -> str:
    """Return the prompt with a name.

    Raises:
        InputError: no prompt has this name; the message lists the names.
    """
    if name in prompts:
        return prompts[name]
    names = [known for known in prompts if known]
    expected = f"one of {format_names(names, most=20)}" if names else "no name, since the model has no prompts"
    raise InputError(f"there is no prompt {quote(name)}; expected {expected}: name another one, or leave it out")
