"""The unix page: floor, client and every style of server over a Unix socket."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.measure.native import build_native
from benchmarks.measure.processes import Failed, run, server

CORE = min(os.sched_getaffinity(0))

needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")


@needs_cmake
def test_unix_measures_every_style_beside_the_floor(check_styles: Callable[..., None]) -> None:
    styles = ["protocol", "buffered", "streams", "native-streams", "sock"]
    check_styles("unix", styles, "1 KiB")


@needs_cmake
def test_messages_larger_than_a_unix_sockets_buffer_pass_floor_and_client(tmp_path: Path) -> None:
    native = build_native()
    path = str(tmp_path / "socket")
    with server([str(native / "echo_floor"), "--unix", path], CORE) as floor:
        assert floor.ready_line == path
        client = [str(native / "echo_client"), "--unix", path, "--size", str(1 << 20)]
        client += ["--connections", "2", "--warmup", "0", "--requests", "6"]
        assert json.loads(run(client, CORE, timeout=60))["requests"] >= 6


@needs_cmake
def test_a_path_too_long_for_a_unix_socket_is_named() -> None:
    path = "/tmp/" + "x" * 200
    with pytest.raises(Failed, match="xxx: File name too long"):
        run([str(build_native() / "echo_client"), "--unix", path], CORE, timeout=60)
