"""The pages of the Python reference: a directive of Sphinx for each public name.

The public names are those in ``__all__`` of the public modules. Sphinx takes the text from the
docstrings.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = "reference/python"

# These packages export their public names; the modules inside are their own affair.
EXPORTING = ("penstock.alicat", "penstock.record")
# ``penstock`` exports the loop's names, and a program's entry is no interface.
NOT_DOCUMENTED = ("penstock.loop", "penstock.cli", "penstock.sim.__main__")
# pyserial's interface: its own manual describes the names.
OF_PYSERIAL = "penstock.serial.compat"


class Entry(NamedTuple):
    """A public name: the module that has it, and whether another module describes it."""

    module: str
    name: str
    described_in: str

    @property
    def full_name(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def value(self) -> object:
        return getattr(importlib.import_module(self.module), self.name)

    @property
    def is_described_here(self) -> bool:
        """False for a module, which has its own page, and for what another page describes."""
        return self.described_in == self.module and not inspect.ismodule(self.value)


def _is_private(name: str) -> bool:
    return any(part.startswith("_") for part in name.split("."))


def public_modules() -> list[str]:
    """The modules whose ``__all__`` is public, packages before what is in them."""
    import penstock

    names = ["penstock"]
    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        name = module.name
        inside = next((each for each in EXPORTING if name.startswith(f"{each}.")), None)
        if _is_private(name) or name.startswith((*NOT_DOCUMENTED, f"{OF_PYSERIAL}.")):
            continue
        if inside is not None and not module.ispkg:
            continue
        names.append(name)
    return names


def all_names(module: str) -> list[str]:
    """The public names of a module, without its version."""
    loaded = importlib.import_module(module)
    return [name for name in getattr(loaded, "__all__", ()) if name != "__version__"]


def _is_function(value: object) -> bool:
    """Whether it is a function, or a native object in the place of one that makes coroutines."""
    return inspect.isroutine(value) or inspect.iscoroutinefunction(value)


def entries() -> list[Entry]:
    """Every public name. What several modules export is described in the first of them."""
    first: dict[int, str] = {}
    found = []
    for module in sorted(public_modules(), key=lambda name: (name.count("."), name)):
        loaded = importlib.import_module(module)
        for name in all_names(module):
            value = getattr(loaded, name)
            home = module
            if inspect.isclass(value) or _is_function(value) or inspect.ismodule(value):
                home = first.setdefault(id(value), module)
            found.append(Entry(module, name, home))
    return found


def _own_members(cls: type, described: set[type]) -> list[str]:
    """Public members, with those of private bases, without those of bases that are described."""
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        own = base is cls
        if not own and (base in described or not base.__module__.startswith("penstock")):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or (value is None and not own):
                continue
            names[name] = None
        if own:
            # Fields without a default.
            names |= dict.fromkeys(n for n in inspect.get_annotations(base) if n[0] != "_")
    return list(names)


def _original(value: Any) -> Any:
    """What :func:`functools.wraps` has made a function from, or the function itself."""
    return getattr(value, "__wrapped__", value)


def _directive(entry: Entry, described: set[type]) -> Iterator[str]:
    value = entry.value
    name = entry.full_name
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, BaseException) else "class"
        yield f".. auto{kind}:: {name}"
        yield "   :show-inheritance:"
        members = _own_members(value, described)
        if issubclass(value, enum.Enum):
            members = [member for member in members if member in value.__members__] + [
                member for member in members if member not in value.__members__
            ]
        if members:
            yield f"   :members: {', '.join(members)}"
            yield "   :undoc-members:"
    elif _is_function(value) and _original(value).__module__.startswith("penstock"):
        yield f".. autofunction:: {name}"
    elif _is_function(value):
        # Made from a function of Python's, whose manual describes it.
        yield f".. py:function:: {entry.name}{inspect.signature(value)}"
        yield ""
        yield f"   ``{_original(value).__module__}.{value.__name__}``."
    elif inspect.ismodule(value):
        yield f"The module :py:mod:`{value.__name__}`."
    else:
        yield f".. py:data:: {entry.name}"
        yield f"   :type: {type(value).__name__}"


def _summary(module: str) -> str:
    """The first sentence of the module's docstring, without its full stop."""
    text = inspect.getdoc(importlib.import_module(module)) or ""
    summary = " ".join(text.partition("\n\n")[0].split()).rstrip(".").replace("``", "`")
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", summary)


def write(target: Path) -> None:
    """Write a page for each public module, and their index."""
    folder = target / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    every = entries()
    described = {value for entry in every if inspect.isclass(value := entry.value)}
    places = []
    for module in dict.fromkeys(entry.module for entry in every):
        lines = [f"# `{module}`", "", "```{eval-rst}", f".. automodule:: {module}", ""]
        elsewhere = []
        for entry in every:
            if entry.module != module:
                continue
            if entry.described_in == module:
                lines += [*_directive(entry, described), ""]
            else:
                elsewhere.append(f":py:obj:`{entry.name} <{entry.described_in}.{entry.name}>`")
        if elsewhere:
            lines += ["Also here: " + ", ".join(elsewhere) + ".", ""]
        lines += ["```", ""]
        place = f"{FOLDER}/{module}.md"
        (target / place).write_text("\n".join(lines), encoding="utf-8")
        places.append(place)
    head = [
        "# Python reference",
        "",
        "Every public name of the package, from its docstring. What is not here is private.",
        "",
    ]
    links = [
        f"- [`{Path(place).stem}`]({Path(place).name}): {_summary(Path(place).stem)}"
        for place in places
    ]
    toc = ["", "```{toctree}", ":hidden:", "", *(Path(place).stem for place in places), "```", ""]
    (folder / "index.md").write_text("\n".join([*head, *links, *toc]), encoding="utf-8")
