"""Whole recordings that are signed: ``record --sign``, ``recover --sign`` and ``verify --key``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import main

pytest.importorskip("cryptography")

pytestmark = pytest.mark.usefixtures("native_loop")

FORMATS = ["parts", "csv", "jsonl", "sqlite", "parquet", "arrow"]


def make_key(path: Path) -> tuple[str, str]:
    """A private key and its public one."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    nothing = serialization.NoEncryption()
    path.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, nothing))
    public = path.with_suffix(".pub")
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(pem, form))
    return str(path), str(public)


def configuration(tmp_path: Path, port: str, duration: float = 0.5) -> None:
    (tmp_path / "run.toml").write_text(
        f"""
        [record]
        rate_hz = 20
        duration = {duration}
        out = "out"
        formats = {json.dumps(FORMATS)}
        [[device]]
        name = "fuel"
        port = "{port}"
        baudrate = 115200
        timeout = 10
        """
    )


def verified(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["verify", "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def seals_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [seal for each in found.values() for seal in each["seals"]]


def test_every_file_of_a_signed_run_is_that_of_its_key(
    penstock: Any, simulator: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, (port,) = simulator("A:500")
    configuration(tmp_path, port)
    key, public = make_key(tmp_path / "mine")
    other, other_public = make_key(tmp_path / "other")
    for more in ([], ["--resume"]):
        done = penstock("record", "run.toml", "--sign", key, "--no-plot", *more)
        assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    code, found = verified(capsys, str(out), "--key", public)
    seals = seals_of(found)
    assert code == 0, found
    assert len(seals) >= len(FORMATS)
    assert all(seal["signed"] and not seal["problems"] for seal in seals)
    code, found = verified(capsys, str(out), "--key", other_public)
    assert code == 8
    assert all("is of another key" in " ".join(seal["problems"]) for seal in seals_of(found))
    code, found = verified(capsys, str(out))
    assert code == 0
    assert not any(seal["signed"] for seal in seals_of(found))
    before = {path: path.read_bytes() for path in out.glob("samples.*") if path.is_file()}
    for wrong in ([], ["--sign", other]):
        done = penstock("record", "run.toml", "--resume", "--no-plot", *wrong)
        assert done.returncode != 0
        assert "is signed" in done.stderr
    assert {path: path.read_bytes() for path in before} == before


def test_a_key_that_is_none_is_told_before_anything_is_recorded(
    penstock: Any, tmp_path: Path
) -> None:
    configuration(tmp_path, "/dev/null")
    done = penstock("record", "run.toml", "--sign", "nowhere")
    assert done.returncode == 3
    assert "the key nowhere cannot be used: No such file" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_signed_run_that_was_killed_is_recovered_with_its_key(
    start: Any, simulator: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, (port,) = simulator("A:500")
    configuration(tmp_path, port, duration=60)
    key, public = make_key(tmp_path / "mine")
    recorder = start("record", "run.toml", "--sign", key, "--no-plot")
    for _ in range(3):
        recorder.wait_for(r"samples")
    recorder.process.kill()
    recorder.process.wait()
    names = ["samples.csv", "samples.jsonl", "samples.parquet", "samples.arrow", "samples"]
    without_socket = shutil.ignore_patterns("*.sock")
    shutil.copytree(tmp_path / "out", tmp_path / "copy", ignore=without_socket)
    for folder, options, rest in (("out", ["--sign", key], []), ("copy", [], names[2:])):
        files = [str(tmp_path / folder / name) for name in names]
        assert main(["recover", *files, *options]) == 0
        capsys.readouterr()
        for name, file in zip(names, files, strict=True):
            code, found = verified(capsys, file, "--key", public)
            problems = [text for seal in seals_of(found) for text in seal["problems"]]
            assert code == (8 if name in rest else 0), (name, found)
            assert ("no signature" in " ".join(problems)) == (name in rest), (name, problems)
            assert verified(capsys, file)[0] == 0
