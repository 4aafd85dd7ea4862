"""Names of options in error messages: flags of the command line, or arguments of Python functions.

A function whose message tells the user to set an option has a `spell` argument, one of the two functions below.
"""

from collections.abc import Callable

Spell = Callable[..., str]


def spell_flag(name: str, value: str | bool | None = None) -> str:
    """Spell an option for the command line.

    Example:
        >>> spell_flag("on_error", "skip"), spell_flag("resume", True)
        ('--on-error skip', '--resume')
    """
    return f"--{name.replace('_', '-')}" + (f" {value}" if isinstance(value, str) else "")


def spell_argument(name: str, value: str | bool | None = None) -> str:
    """Spell an option for Python.

    Example:
        >>> spell_argument("on_error", "skip"), spell_argument("resume", True), spell_argument("dev")
        ("on_error='skip'", 'resume=True', 'dev=')
    """
    return f"{name}=" + ("" if value is None else repr(value))
