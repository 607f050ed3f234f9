"""The source distribution contains what a build needs, and its metadata are right."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


BUILT = (
    "build/x.o",
    "dist/penstock-0.0.0.whl",
    "python/penstock/_core.abi3.so",
    ".venv/pyvenv.cfg",
)


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    """The files of the repository."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("this tree is no clone of the repository, so the list of its files is missing")
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def members(tracked: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of the source distribution by their path in it.

    It is made from a copy of the repository, because the tests' own tree can hold a hundred
    thousand files that were built.
    """
    pytest.importorskip("scikit_build_core")
    tree, folder = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("sdist")
    for name in tracked:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name)
    for name in BUILT:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    build = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    command = [sys.executable, "-I", "-c", build, str(folder)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True, timeout=100)
    (file,) = folder.iterdir()
    assert file.name == f"penstock-{penstock.__version__}.tar.gz"
    found = {}
    with tarfile.open(file) as archive:
        for member in archive:
            if (content := archive.extractfile(member)) is not None:
                found[member.name.partition("/")[2]] = content.read()
    return found


def metadata_of(members: dict[str, bytes]) -> Message:
    return Parser().parsestr(members["PKG-INFO"].decode())


@pytest.mark.parametrize("folder", ["cmake", "include", "src", "python"])
def test_sources_of_the_build_are_complete(
    tracked: list[str], members: dict[str, bytes], folder: str
) -> None:
    files = {name for name in tracked if name.startswith(f"{folder}/")}
    assert files, "git lists nothing"
    assert files - members.keys() == set()


def test_licences_and_documentation_are_included(members: dict[str, bytes]) -> None:
    page = "python/penstock/dash/page"
    assert members.keys() >= {f"{page}/index.html", f"{page}/vendor/uPlot-LICENSE"}
    assert members.keys() >= {"LICENSE", "THIRD_PARTY_LICENSES.md", "README.md", "CHANGELOG.md"}


def test_nothing_that_was_built_is_included(members: dict[str, bytes]) -> None:
    assert members.keys() & set(BUILT) == set()


def test_metadata_are_those_of_the_project(members: dict[str, bytes]) -> None:
    metadata = metadata_of(members)
    assert metadata["Name"] == "penstock"
    assert metadata["Version"] == penstock.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert set(metadata.get_all("License-File", [])) == {"LICENSE", "THIRD_PARTY_LICENSES.md"}
    assert set(metadata.get_all("Provides-Extra", [])) == PROJECT["optional-dependencies"].keys()
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert [re.split("[<>=]", line)[0] for line in required] == ["anyio"]


def test_description_has_nothing_that_only_the_repository_resolves(
    members: dict[str, bytes],
) -> None:
    metadata = metadata_of(members)
    assert metadata["Description-Content-Type"] == "text/markdown"
    description = metadata.get_payload()
    assert isinstance(description, str)
    assert "penstock demo" in description
    targets = re.findall(r"\]\(([^)]*)\)", description)
    assert [target for target in targets if not target.startswith("https://")] == []


def test_program_of_the_description_runs() -> None:
    page = (ROOT / "docs/description.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("b'hello\\n'\n", "")


def test_version_is_semantic_and_written_once() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", penstock.__version__)
    assert PROJECT["dynamic"] == ["version"]
    cmake = (ROOT / "CMakeLists.txt").read_text()
    assert "python/penstock/__init__.py" in cmake
    assert penstock.__version__ not in cmake
