"""The licences in the bills of materials are those that the packages themselves state."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# What metadata without an expression say by a classifier.
CLASSIFIERS = {
    "MIT License": {"MIT"},
    "BSD License": {"BSD-3-Clause"},  # which of them, their LICENSE file says
    "Apache Software License": {"Apache-2.0"},
    "Python Software Foundation License": {"PSF-2.0"},
    "Mozilla Public License 2.0 (MPL 2.0)": {"MPL-2.0"},
}


def table(name: str) -> dict[str, str]:
    sys.path.insert(0, str(ROOT / "scripts/packaging"))
    try:
        found: dict[str, str] = getattr(importlib.import_module("licences"), name)
        return found
    finally:
        sys.path.remove(str(ROOT / "scripts/packaging"))
        sys.modules.pop("licences", None)


def licences_of(expression: str) -> set[str]:
    return set(re.split(r" (?:AND|OR) ", expression))


@pytest.mark.parametrize(("package", "stated"), sorted(table("PYTHON").items()))
def test_a_package_has_the_licence_that_it_states(package: str, stated: str) -> None:
    try:
        facts = metadata(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    if expression := facts.get("License-Expression"):
        assert licences_of(stated) == licences_of(expression)
        return
    classifiers = [each for each in facts.get_all("Classifier") or [] if "License ::" in each]
    if classifiers:
        known = [CLASSIFIERS[each.rpartition(" :: ")[2]] for each in classifiers]
        assert licences_of(stated) == set().union(*known)
    else:
        assert stated == facts["License"]


def test_every_package_that_users_install_has_a_licence() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    lines = [*PROJECT["dependencies"]]
    for extra in everything.partition("[")[2].rstrip("]").split(","):
        lines += extras[extra]
    names = {re.split(r"[<>=;\[ ]", line)[0].lower() for line in lines} - {"penstock"}
    assert names <= table("PYTHON").keys()


def test_every_library_of_the_debian_package_has_a_licence() -> None:
    source = (ROOT / "cmake/PenstockPackages.cmake").read_text()
    depends = "\n".join(re.findall(r"^ *(?:set|list)\(.*penstock_depends.*$", source, re.M))
    needed = set(re.findall(r"\blib\S+-dev\b|\bzlib1g-dev\b", depends))
    alternatives = set(re.findall(r"\| (\S+)", depends))
    assert len(needed) >= 5
    assert needed - alternatives <= table("DEBIAN").keys()
