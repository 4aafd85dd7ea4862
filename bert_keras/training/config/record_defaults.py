"""A run that takes the records as they are. No TensorFlow here."""

from collections.abc import Mapping, Sequence

from bert_keras.errors import InputError

_ALIKE = ("sentence_objective", "short_sequence_rate", "keep_documents_apart", "packed", "duplicates")


def infer_settings(manifests: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Returns what the records decide of a run, by dotted keys, for `Pretraining.resolve(defaults=...)`.

    The sentence objective of the records chooses the model: "bert" where there is one, "mlm" where there is none.

    Args:
        manifests: those of the records folders of one run, in the order of its phases.

    Raises:
        InputError: they were made with different settings, lengths aside.
    """
    first, *others = manifests
    for other in others:
        if differing := [name for name in _ALIKE if other[name] != first[name]]:
            raise InputError(
                f"the records folders were made with different {', '.join(differing)}; expected the same but for the "
                "length: make them again alike"
            )
    settings = {f"records.{name}": first[name] for name in _ALIKE}
    settings["records.max_sequence_lengths"] = [manifest["max_sequence_length"] for manifest in manifests]
    return settings | {"model.objective": "mlm" if first["sentence_objective"] == "none" else "bert"}
