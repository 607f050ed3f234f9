"""Cells of tables: an extension of Sphinx. It marks figures, which the style keeps on one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

# "1.14 (1.13–1.17)", "0.79×", "−3 %", "12.5 µs": a number first, and at most a unit in letters.
_FIGURE = re.compile(r"[<>≤≥±+−-]?\s?\d[\d\s.,:()–×%/±−-]*(?:[a-zA-Zµ]{1,4}(?:/[a-z]+)?\)?)?")


def is_figure(text: str) -> bool:
    """Whether a cell is one measurement or count."""
    return _FIGURE.fullmatch(text.strip()) is not None


def mark_cells(_application: Sphinx, tree: nodes.document, _page: str) -> None:
    """Give figures their class."""
    from docutils import nodes

    for cell in tree.findall(nodes.entry):
        if is_figure(cell.astext()):
            cell["classes"].append("figure")


def setup(application: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    application.connect("doctree-resolved", mark_cells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
