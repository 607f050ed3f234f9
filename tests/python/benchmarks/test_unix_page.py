"""The unix page: floor, client and every style of server over a Unix socket."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure.native import build_native
from benchmarks.measure.processes import Failed, run, server

CORE = min(os.sched_getaffinity(0))

needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")


@needs_cmake
def test_unix_measures_every_style_beside_the_floor(
    measure_page: Callable[..., tuple[dict[str, Any], str]], own_and_asyncio: str
) -> None:
    styles = ["protocol", "buffered", "streams", "native-streams", "sock"]
    results, _ = measure_page(
        *(
            "unix",
            "--rounds",
            "1",
            "--seconds",
            "0.05",
            "--warmup",
            "0.02",
            "--turns",
            "1",
            "--connections",
            "2",
        ),
        *("--loops", own_and_asyncio, "--styles", ",".join(styles)),
    )
    assert [cell["labels"] for cell in results["cells"]] == [
        [style, "1 KiB", "2"] for style in styles
    ]
    for cell in results["cells"]:
        for name in ("floor", *own_and_asyncio.split(",")):
            assert cell["contenders"][name]["rounds"][0]["requests"] > 0


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
