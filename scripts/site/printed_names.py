"""How the Python reference prints values and names: an extension of Sphinx.

The ``repr`` of a function, an object or a flag is no expression of Python. Sphinx cannot parse a
signature with such a default value, and then prints the annotations raw, with the names of private
modules. The values are therefore written as expressions, and ``...`` where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

LONGEST = 160
"""Characters of a value. A longer one is printed as its class with ``...``."""

_MEMBER = re.compile(r"<(?P<enum>[A-Z]\w*)\.(?P<names>\w+(?:\|\w+)*): [^<>]*>")
_REPR = re.compile(r"<[^<>]*(?:<[^<>]*>[^<>]*)*>")


def expression(text: str) -> str:
    """The ``repr`` of a value as an expression."""
    text = _MEMBER.sub(
        lambda found: " | ".join(f"{found['enum']}.{name}" for name in found["names"].split("|")),
        text,
    )
    if re.match(r"\w*[\"']", text):
        return text  # a string or bytes, whatever is in it
    return _REPR.sub("...", text)


def shortened(describe: Callable[..., str]) -> Callable[..., str]:
    """Sphinx's function for a value's text, with what the reference prints."""

    def description(value: object, **seen: Any) -> str:
        text = expression(describe(value, **seen))
        if len(text) > LONGEST and not isinstance(value, str | bytes):
            return f"{type(value).__name__}(...)"
        return text

    return description


def with_public_titles(_application: Sphinx, tree: nodes.document, _page: str) -> None:
    """Give links the titles that their anchors have: public names."""
    from docutils import nodes

    for link in tree.findall(nodes.reference):
        if "._" in link.get("reftitle", ""):
            link["reftitle"] = link.get("refid") or urldefrag(link.get("refuri", "")).fragment


def setup(application: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    from sphinx.util import inspect

    inspect.object_description = shortened(inspect.object_description)
    application.connect("doctree-resolved", with_public_titles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
