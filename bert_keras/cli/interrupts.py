"""Ctrl-C that other code turned into an error of its own."""


def was_interrupted(error: BaseException | None) -> bool:
    """Return whether an error came up while a `KeyboardInterrupt` was handled.

    Ctrl-C within a `finally` block of argparse, for example, ends in an AttributeError.
    """
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
