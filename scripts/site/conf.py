"""Sphinx's configuration. The sources are the tree that scripts/site/build.py has staged."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(Path(__file__).parent))

project = "Penstock"
author = "the Penstock authors"
copyright = author
version = release = re.search(
    r'^__version__ = "(.+)"', (ROOT / "python/penstock/__init__.py").read_text(), re.M
)[1]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "printed_names",
    "tables",
]
root_doc = "index"
# description.md is the page of the package index.
exclude_patterns = ["repository", "description.md"]
highlight_language = "text"

# Anchors are those that a reader of the Markdown files elsewhere sees too.
myst_heading_anchors = 6
myst_enable_extensions = ["fieldlist"]

# Thousands of entries in every page's navigation would take most of the build's time.
toc_object_entries = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
# Types in signatures are links where only one class has the name.
suppress_warnings = ["ref.python"]
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # a field is described once, by its own entry or by its class

# The theme has its scripts and styles with it, and uses the fonts of the reader's system.
html_theme = "furo"
html_title = f"Penstock {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/favicon.svg"
html_search_scorer = str(Path(__file__).parent / "static/search_scores.js")
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
# Output is not typed, and of a terminal's lines only the commands are.
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"
copybutton_exclude = ".linenos, .gp, .go"
html_theme_options = {"navigation_with_keys": True}
