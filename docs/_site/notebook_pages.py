"""The pages of notebooks, from the outputs that they contain; nothing is executed."""

import pathlib
import re

import nbformat
from jinja2 import DictLoader
from nbconvert import MarkdownExporter

_TEMPLATE = """
{%- extends 'markdown/index.md.j2' -%}
{% block input %}
```python
{{ cell.source }}
```
{% endblock input %}
{% block stream %}
```text
{{ output.text | strip_ansi | trim }}
```
{% endblock stream %}
{% block data_text scoped %}
```text
{{ output.data['text/plain'] | trim }}
```
{% endblock data_text %}
{% block error %}
```text
{{ super() | strip_ansi | trim }}
```
{% endblock error %}
{% block data_png %}
{%- set alt = output.metadata.get('image/png', {}).get('alt') -%}
![{{ alt or 'Picture that the code above draws' }}]({{ output.metadata.filenames['image/png'] | path2url }})
{% endblock data_png %}
"""


def make_pages(path: pathlib.Path, uri: str) -> dict[str, str | bytes]:
    """Return the page of a notebook and its pictures, by path on the site.

    Args:
        path: the notebook.
        uri: its path under `docs/`, which ends with `.ipynb`.
    """
    name = pathlib.PurePosixPath(uri).stem
    folder = pathlib.PurePosixPath(uri).parent
    exporter = MarkdownExporter(extra_loaders=[DictLoader({"page": _TEMPLATE})], template_file="page")
    resources = {"output_files_dir": name, "unique_key": name}
    text, resources = exporter.from_notebook_node(nbformat.read(path, as_version=4), resources)
    text = re.sub(r"!\[(?:png|svg|jpeg)\]\(", "![Picture that the code above draws](", text)
    title, _, rest = text.lstrip().partition("\n")
    download = f'This page is a <a href="{name}.ipynb" download>notebook</a> with the outputs of its run.'
    pages: dict[str, str | bytes] = {f"{folder / name}.md": "\n".join([title, "", download, rest])}
    for picture, content in resources.get("outputs", {}).items():
        pages[str(folder / picture)] = content
    return pages
