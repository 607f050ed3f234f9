"""The TLS page: floor, client and servers with TLS."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.measure.certificate import make_certificate
from benchmarks.measure.native import build_native
from benchmarks.measure.processes import run, server

CORE = min(os.sched_getaffinity(0))


@pytest.fixture
def native() -> Path:
    if shutil.which("cmake") is None or shutil.which("openssl") is None:
        pytest.skip("cmake or the openssl command is not installed")
    built = build_native()
    if not (built / "tls_echo_floor").exists():
        pytest.skip("OpenSSL's headers are not installed")
    return built


@pytest.mark.usefixtures("native")
def test_tls_measures_every_style_beside_the_floor(check_styles: Callable[..., None]) -> None:
    styles = ["protocol", "buffered", "streams"]
    check_styles("tls", styles, "16 KiB", "--sizes", "16384")


def test_messages_of_many_records_pass_floor_and_client(native: Path, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    with server([str(native / "tls_echo_floor"), str(certificate), str(key)], CORE) as floor:
        client = [str(native / "tls_echo_client"), "--port", floor.ready_line]
        client += ["--size", str(1 << 20), "--connections", "2", "--warmup", "0"]
        client += ["--requests", "6"]
        assert json.loads(run(client, CORE, timeout=60))["requests"] >= 6
