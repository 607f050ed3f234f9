"""How the Python reference prints values and names: an extension of Sphinx.

The ``repr`` of a function, an object or a flag is no expression of Python. Sphinx cannot parse a
signature with such a default value, and then prints the annotations raw, with the names of private
modules. The values are therefore written as expressions, and ``...`` where there is none.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urldefrag

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import inspect as sphinx_inspect

LONGEST = 160
"""Characters of a value. A longer one is printed as its class with ``...``."""

_MEMBER = re.compile(r"<(?P<enum>[A-Z]\w*)\.(?P<names>\w+(?:\|\w+)*): [^<>]*>")
_REPR = re.compile(r"<[^<>]*(?:<[^<>]*>[^<>]*)*>")
_describe = sphinx_inspect.object_description


def expression(text: str) -> str:
    """The ``repr`` of a value as an expression."""
    text = _MEMBER.sub(
        lambda found: " | ".join(f"{found['enum']}.{name}" for name in found["names"].split("|")),
        text,
    )
    if re.match(r"\w*[\"']", text):
        return text  # a string or bytes, whatever is in it
    return _REPR.sub("...", text)


def description(value: object, **seen: Any) -> str:
    """A value as the reference prints it."""
    text = expression(_describe(value, **seen))
    if len(text) > LONGEST and not isinstance(value, str | bytes):
        return f"{type(value).__name__}(...)"
    return text


def with_public_titles(_application: Sphinx, tree: nodes.document, _page: str) -> None:
    """Give links the titles that their anchors have: public names."""
    for link in tree.findall(nodes.reference):
        if "._" in link.get("reftitle", ""):
            link["reftitle"] = link.get("refid") or urldefrag(link.get("refuri", "")).fragment


def setup(application: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    sphinx_inspect.object_description = description
    application.connect("doctree-resolved", with_public_titles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
