"""The names in the tables of docs/migrate exist."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.python.conftest import CORE_MISSING

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted((ROOT / "docs/migrate").glob("*.md"))
CPP = [page for page in PAGES if page.stem in ("asio", "beast", "drogon", "uwebsockets")]
PYTHON = [page for page in PAGES if page not in CPP]

pytestmark = pytest.mark.skipif(
    CORE_MISSING, reason="penstock._core is not built (run 'make build')"
)


def names(page: Path) -> list[str]:
    """The names in the second column of the page's tables."""
    found = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and "|---" not in line:
            found += re.findall(r"`([^`]+)`", line.split(" | ")[1])
    return found


def resolve(name: str) -> object:
    parts = name.replace(":", ".").split(".")
    value: object = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:], 2):
        if not hasattr(value, part):
            importlib.import_module(".".join(parts[:number]))
        value = getattr(value, part)
    return value


def test_there_is_a_page_for_each_system() -> None:
    systems = "uvloop aiofiles pyserial anyserial alicatlib alicat pyuring asio websockets uvicorn "
    systems += "gunicorn granian beast drogon uwebsockets"
    assert {page.stem for page in PAGES} == set(systems.split())


@pytest.mark.parametrize("page", PYTHON, ids=lambda page: page.stem)
def test_every_python_name_can_be_imported(page: Path) -> None:
    found = names(page)
    assert len(found) >= 6
    if "penstock.gunicorn.Worker" in found:
        pytest.importorskip("gunicorn", reason="its worker is a class of gunicorn")
    for name in found:
        assert name.startswith(("penstock", "anyio.")), name
        resolve(name)


@pytest.mark.parametrize("page", PYTHON, ids=lambda page: page.stem)
def test_the_named_methods_are_public(page: Path) -> None:
    assert [name for name in names(page) if re.search(r"\._", name)] == []


def long_options(groups: Iterable[Iterable[str] | None]) -> set[str]:
    return {name for group in groups for name in group or () if name.startswith("--")}


def options_of(server: str) -> set[str]:
    """The options of an installed server's command."""
    if server == "gunicorn":
        settings = pytest.importorskip("gunicorn.config").KNOWN_SETTINGS
        return long_options(setting.cli for setting in settings)
    module = pytest.importorskip("granian.cli" if server == "granian" else "uvicorn.main")
    command = module.cli if server == "granian" else module.main
    return long_options((*each.opts, *each.secondary_opts) for each in command.params)


@pytest.mark.parametrize("server", ["uvicorn", "gunicorn", "granian"])
def test_every_option_of_a_server_is_in_its_table(server: str) -> None:
    text = (ROOT / "docs/migrate" / f"{server}.md").read_text(encoding="utf-8")
    named = re.findall(r"`(--[a-z0-9_-]+)(\*?)", text)
    whole = {name for name, star in named if not star}
    beginnings = tuple(name for name, star in named if star)
    # `--no-x` is in the table with `--x`.
    missing = {
        name
        for name in options_of(server) - whole
        if not name.startswith(beginnings) and name.replace("--no-", "--", 1) not in whole
    }
    assert missing == set()


@pytest.mark.parametrize("page", CPP, ids=lambda page: page.stem)
def test_every_cpp_name_is_declared(page: Path) -> None:
    headers = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "include/penstock").rglob("*.hpp")
        if "detail" not in path.parts
    )
    found = [name for name in names(page) if name != "std::error_code"]
    assert len(found) >= 20
    for name in found:
        last = re.sub(r"<.*>", "", name).rpartition("::")[2]
        declared = rf"(?:class|struct|enum class|using) (?:\[\[nodiscard\]\] )?{last}\b|\b{last}\("
        assert re.search(declared, headers), name
