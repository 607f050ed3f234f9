"""The build's last step: what it puts instead of the modules that a process may be importing."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STEPS = ROOT / "scripts" / "steps"
NAME = "_core.cpython-311-x86_64-linux-gnu.so"


def place(root: Path) -> subprocess.CompletedProcess[str]:
    script = f'. "{STEPS}/say.sh"; . "{STEPS}/native.sh"; place_extension tree'
    return subprocess.run(
        ["bash", "-e", "-c", script], cwd=root, capture_output=True, text=True, check=False
    )


def make(root: Path, built: str) -> Path:
    (root / "tree").mkdir(exist_ok=True)
    (root / "tree" / NAME).write_text(built)
    package = root / "python" / "penstock"
    package.mkdir(parents=True, exist_ok=True)
    return package / NAME


def test_a_module_that_is_in_use_keeps_its_content(tmp_path: Path) -> None:
    placed = make(tmp_path, "the new module")
    placed.write_text("the old module")
    with placed.open() as in_use:
        assert place(tmp_path).returncode == 0
        assert in_use.read() == "the old module"
    assert placed.read_text() == "the new module"
    assert [path.name for path in placed.parent.iterdir()] == [NAME]


def test_a_link_to_the_file_that_the_linker_writes_becomes_a_file(tmp_path: Path) -> None:
    placed = make(tmp_path, "the module")
    placed.symlink_to(tmp_path / "tree" / NAME)
    assert place(tmp_path).returncode == 0
    assert not placed.is_symlink()
    (tmp_path / "tree" / NAME).write_text("half")
    assert placed.read_text() == "the module"


def test_a_module_that_is_the_same_is_left_in_its_place(tmp_path: Path) -> None:
    placed = make(tmp_path, "the module")
    placed.write_text("the module")
    before = placed.stat()
    assert place(tmp_path).returncode == 0
    assert placed.stat().st_ino == before.st_ino


def test_a_build_without_a_module_is_refused(tmp_path: Path) -> None:
    make(tmp_path, "")
    (tmp_path / "tree" / NAME).unlink()
    done = place(tmp_path)
    assert done.returncode == 1
    assert "the build in tree made no extension module" in done.stderr
