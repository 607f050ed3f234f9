"""What seals prove by: digests, those of earlier versions, and signatures."""

from __future__ import annotations

import importlib
import itertools
import random
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from penstock._record import xxh3_128
from penstock.cli import main
from penstock.record import PublicKey, RecordError, SigningKey, SinkDependencyError, check_seals
from penstock.record._seals.digests import FAST, PROOF, DigestThread, digest_of, new_digest
from penstock.record._seals.seal import seals_path
from tests.python.record.sealed_recordings import NAMES, TEXTS, only, write


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A private key, its public one, and the public one of another."""
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    folder = tmp_path / "keys"
    folder.mkdir()
    for name in ("mine", "other"):
        key = Ed25519PrivateKey.generate()
        pem = serialization.Encoding.PEM
        (folder / name).write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        (folder / f"{name}.pub").write_bytes(
            key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
    return folder / "mine", folder / "mine.pub", folder / "other.pub"


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_those_of_the_key(
    tmp_path: Path, name: str, keys: tuple[Path, Path, Path]
) -> None:
    mine, public, other = keys
    path = tmp_path / name
    for run in range(2):
        write(path, 300 * run, 300, append=True, sign=SigningKey(mine))
    (found,) = check_seals(path, PublicKey(public))
    assert found.unchanged
    assert found.signed
    assert main(["verify", str(path), "--key", str(public)]) == 0
    assert main(["verify", str(path), "--key", str(other)]) == 8
    assert main(["verify", str(path)]) == 0
    (found,) = check_seals(path, PublicKey(other))
    assert "is of another key" in found.problems[0]
    unsigned = tmp_path / "unsigned" / name
    unsigned.parent.mkdir()
    write(unsigned, 0, 100)
    assert main(["verify", str(unsigned), "--key", str(public)]) == 8


@pytest.mark.parametrize("name", TEXTS)
def test_signed_files_are_not_continued_without_their_key(
    tmp_path: Path, name: str, keys: tuple[Path, Path, Path]
) -> None:
    path = tmp_path / name
    write(path, 0, 100, sign=SigningKey(keys[0]))
    before = path.read_bytes()
    with pytest.raises(RecordError, match="is signed, and what follows would not be"):
        write(path, 100, 100, append=True)
    with pytest.raises(RecordError, match="is signed with another key"):
        write(path, 100, 100, append=True, sign=SigningKey(keys[0].with_name("other")))
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [None, b"", b"no key", b"-----BEGIN PRIVATE KEY-----\n"])
def test_a_key_that_cannot_be_used_is_told(tmp_path: Path, content: bytes | None) -> None:
    pytest.importorskip("cryptography")
    if content is not None:
        (tmp_path / "KEY").write_bytes(content)
    for kind in (SigningKey, PublicKey):
        with pytest.raises(RecordError, match=r"the key .*KEY cannot be used: .*openssl genpkey"):
            kind(tmp_path / "KEY")
    write(tmp_path / "run.csv", 0, 100)
    assert main(["verify", str(tmp_path / "run.csv"), "--key", str(tmp_path / "KEY")]) == 3


def test_without_the_package_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(SinkDependencyError, match=r"penstock\[sign\]"):
        SigningKey(tmp_path / "KEY")


@pytest.mark.parametrize("name", NAMES)
def test_only_signed_seals_have_the_slow_digest(
    tmp_path: Path, name: str, keys: tuple[Path, Path, Path]
) -> None:
    write(tmp_path / name, 0, 500)
    assert _digest_sizes(tmp_path / name) == {32}
    signed = tmp_path / "signed" / name
    signed.parent.mkdir()
    write(signed, 0, 500, sign=SigningKey(keys[0]))
    assert _digest_sizes(signed) == {64}


@pytest.mark.parametrize("name", NAMES)
def test_seals_of_earlier_versions_are_compared_and_continued(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They had BLAKE2b without a signature too."""
    path = tmp_path / name
    with monkeypatch.context() as earlier:
        for user in ("_seals.seal_writer", "_seals.row_seals", "_seals.part_list"):
            module = importlib.import_module(f"penstock.record.{user}")
            earlier.setattr(module, "digest_name", lambda *, signed: PROOF)
        earlier.setattr("penstock.record._parts.parts_file.digest_name", lambda *, signed: PROOF)
        write(path, 0, 500)
    assert _digest_sizes(path) == {64}
    assert only(path).unchanged
    write(path, 500, 500, append=True)
    found = only(path)
    assert found.unchanged
    assert found.rows == 1000
    if name in (*TEXTS, "run", "run.sqlite"):
        assert _digest_sizes(path) == {64, 32}


def _digest_sizes(path: Path) -> set[int]:
    """Of the seals of a recording, in hexadecimal digits."""
    if path.suffix == ".sqlite":
        with closing(sqlite3.connect(path)) as database:
            return {len(text) for (text,) in database.execute("SELECT digest FROM penstock_seals")}
    seals = path / ".penstock" / "parts.jsonl" if path.suffix == "" else seals_path(path)
    texts = re.findall(r'"(?:digest": |digests": \[)"([0-9a-f]{32,64})"', seals.read_text())
    return {len(text) for text in texts}


@pytest.mark.parametrize(
    ("size", "digest"),
    [
        (0, "99aa06d3014798d86001c324468d497f"),
        (3, "e3b55f57945a17cf5f4299fc161c9cbb"),
        (8, "e1e4432a62217fe4cfd50c61c8bb98c1"),
        (16, "72950631827607e2842812cc870dcae2"),
        (100, "da95ef16fd9566f329b20ba5f03ec01e"),
        (200, "cb0395310643ba0edd97e9af3609d9f5"),
        (241, "1da1cb61bcb8a2a102e8cd95421c6d02"),
        (1024, "d0ac1f7b93bf57b9e5d78bafa45b2aa5"),
        (5000, "b92ec02c39d33ce7b418500fc42320ee"),
    ],
)
def test_the_fast_digest_is_that_of_the_package_xxhash(size: int, digest: str) -> None:
    data = bytes(number % 251 for number in range(size))
    assert digest_of(FAST, data).hex() == digest


@pytest.mark.parametrize("sizes", [[1], [63, 64, 65], [1023, 1, 1024, 1], [7, 3000, 200]])
def test_pieces_and_copies_do_not_change_a_digest(sizes: list[int]) -> None:
    data = random.Random(len(sizes)).randbytes(9000)
    for name in (FAST, PROOF):
        growing = new_digest(name)
        at = 0
        for size in itertools.cycle(sizes):
            if at >= len(data):
                break
            growing.update(memoryview(data)[at : at + size])
            at = min(at + size, len(data))
            if at % 5 == 0 or at > 8000:
                assert growing.copy().digest() == digest_of(name, data[:at])
        assert growing.digest() == digest_of(name, data)


@pytest.mark.parametrize("offset", [0, 1, 31])
def test_wide_registers_do_not_change_the_fast_digest(offset: int) -> None:
    """What the processor's wide registers give, from any address, and what plain numbers give."""
    data = memoryview(random.Random(offset).randbytes(1 << 14))[offset:]
    ends = [size + by for size in (0, 240, 1024, 2048, 16384 - 64) for by in (-1, 0, 1, 63)]
    for size in ends:
        if 0 <= size <= len(data):
            usual, plain = xxh3_128(data[:size]), xxh3_128(data[:size], portably=True)
            assert usual.digest() == plain.digest()
            assert usual.copy().digest() == plain.copy().digest()
    at = 0
    usual, plain = xxh3_128(), xxh3_128(portably=True)
    for size in itertools.cycle([1, 63, 1024, 1500, 0, 2049]):
        if at >= len(data):
            break
        # Pieces that the two get in different ways.
        usual.update(data[at : at + size])
        plain.update(data[at : at + size // 3])
        plain.update(data[at + size // 3 : at + size])
        at = min(at + size, len(data))
        assert usual.digest() == plain.copy().digest()
    with pytest.raises(TypeError):
        xxh3_128(b"", True)  # type: ignore[misc]


def test_work_of_a_chain_is_done_in_order_and_its_failure_is_raised() -> None:
    thread = DigestThread(PROOF)
    done: list[int] = []
    for number in range(50):
        # Small work waits behind the large work before it.
        thread.run(lambda number=number: done.append(number), 1 << 20 if number % 3 else 1)  # type: ignore[misc]
    thread.wait()
    assert done == list(range(50))

    def fail() -> None:
        raise MemoryError("no room")

    thread.run(fail, 1 << 20)
    with pytest.raises(MemoryError, match="no room"):
        thread.wait()
    thread.run(lambda: done.append(50), 1 << 20)
    thread.close()
    assert done[-1] == 50
