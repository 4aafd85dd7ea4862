"""The texts in `templates/`: Dockerfiles, manifests, READMEs and clients that are written beside artifacts."""

import pathlib
import re
from string import Template

_FOLDER = pathlib.Path(__file__).with_name("templates")
_BLOCK = re.compile(r"^%if (not )?(\w+)\n(.*?)^%end\n", re.DOTALL | re.MULTILINE)


def fill_template(path: str, **facts: object) -> str:
    """Return the text of a template.

    A template is a `string.Template`. The lines between `%if name` or `%if not name` and `%end` remain if the fact of
    that name is true, or false.

    Args:
        path: the file, relative to `templates/`.
        **facts: the value of each name in the template.
    """
    text = (_FOLDER / path).read_text(encoding="utf-8")
    text = _BLOCK.sub(lambda block: block[3] if bool(facts[block[2]]) != bool(block[1]) else "", text)
    return Template(text).substitute(facts)
