"""The pages, end to end with tiny rounds. Only the work is checked, not the figures."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure.affinity import Cores, children_on
from benchmarks.measure.echo_stand import EchoStand
from benchmarks.measure.native import build_native
from benchmarks.measure.processes import run, server
from benchmarks.measure.publish import DOCUMENTS, between_markers
from benchmarks.pages.echo import chosen_cells
from benchmarks.run import check_publishing, load_pages, main, make_parser, narrowing
from benchmarks.serial_ports.measured import OWN_LOOP
from benchmarks.serial_ports.ptys import PtyPair, answering_process

ROOT = Path(__file__).resolve().parents[3]
CORE = min(os.sched_getaffinity(0))
TINY = ["--rounds", "2", "--seconds", "0.05", "--warmup", "0.02", "--turns", "1", "--shared-core"]

needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")


def run_page(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture(scope="module")
def native() -> Path:
    return build_native()


@needs_cmake
def test_echo_measures_every_style_beside_the_floor(
    measure_page: Callable[..., tuple[dict[str, Any], str]], own_and_asyncio: str
) -> None:
    results, printed = measure_page(
        *(
            "echo",
            "--rounds",
            "2",
            "--seconds",
            "0.05",
            "--warmup",
            "0.02",
            "--turns",
            "1",
            "--sizes",
            "1024",
        ),
        *("--loops", own_and_asyncio, "--connections", "3"),
    )
    assert [cell["labels"][0] for cell in results["cells"]] == [
        "protocol",
        "buffered",
        "streams",
        "native-streams",
        "sock",
    ]
    loops = own_and_asyncio.split(",")
    for cell in results["cells"]:
        for name in ("floor", "floor-python", *loops):
            contender = cell["contenders"][name]
            assert len(contender["rounds"]) == 2
            rates = contender["requests_per_second"]
            assert 0 < rates["low"] <= rates["median"] <= rates["high"]
            assert contender["server_cpu_us_per_request"]["low"] > 0
        assert cell["best_peer"]["requests_per_second"] == "asyncio"
        if "penstock" in loops:
            ratios = cell["penstock_to"]
            assert ratios["requests_per_second"]["asyncio"]["median"] > 0
            assert ratios["server_cpu_us_per_request"]["floor"]["median"] > 0
            assert ratios["server_cpu_us_per_request"]["floor-python"]["median"] > 0
    assert results["machine"]["kernel"] == os.uname().release
    assert "| protocol       | 1 KiB" in printed


def test_echo_measures_large_messages_and_many_connections_unless_narrowed() -> None:
    def cells(*arguments: str) -> list[str]:
        parsed = make_parser(load_pages()).parse_args(["echo", *arguments])
        return [str(cell) for cell in chosen_cells(parsed)]

    further = ["protocol, 100 KiB, 32 connections", "protocol, 1 KiB, 512 connections"]
    assert cells()[-2:] == further
    assert cells("--styles", "protocol")[-2:] == further
    assert cells("--styles", "sock", "--sizes", "1000") == ["sock, 1000 B, 32 connections"]


@needs_cmake
def test_echo_shows_a_loop_that_is_not_there_as_na_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "echo.json"
    done = run_page(
        *("echo", *TINY, "--loops", "asyncio,nowhere:new_event_loop", "--styles", "protocol"),
        *("--sizes", "64", "--connections", "1", "--json", str(file)),
    )
    assert done.returncode == 0, done.stderr
    (cell,) = json.loads(file.read_text())["cells"]
    assert "No module named 'nowhere'" in cell["contenders"]["nowhere:new_event_loop"]["missing"]
    assert "n/a" in done.stdout
    assert "No module named 'nowhere'" in done.stdout


@needs_cmake
def test_udp_measures_both_styles_on_asyncio_beside_the_floor(tmp_path: Path) -> None:
    file = tmp_path / "udp.json"
    done = run_page(
        *("udp", *TINY, "--loops", "asyncio", "--connections", "1,8", "--json", str(file))
    )
    assert done.returncode == 0, done.stderr
    cells = json.loads(file.read_text())["cells"]
    assert [cell["labels"] for cell in cells] == [
        [style, "1 KiB", clients] for style in ("protocol", "sock") for clients in ("1", "8")
    ]
    for cell in cells:
        for name in ("floor", "asyncio"):
            assert len(cell["contenders"][name]["rounds"]) == 2
            assert cell["contenders"][name]["requests_per_second"]["low"] > 0


@needs_cmake
@pytest.mark.parametrize("name", ["floor", "floor-python"])
def test_messages_larger_than_the_sockets_buffers_pass_floor_and_client(
    native: Path, name: str
) -> None:
    stand = EchoStand(native, Cores(CORE, CORE))
    with server(stand.server_command(name, "protocol"), CORE) as floor:
        client = [str(native / "echo_client"), "--port", floor.ready_line, "--size", str(8 << 20)]
        client += ["--connections", "2", "--warmup", "0", "--requests", "6"]
        figures = json.loads(run(client, CORE, timeout=60))
    assert figures["requests"] >= 6
    assert figures["replies"] >= figures["requests"]


def answer_another_byte(connection: socket.socket) -> None:
    message = bytearray(connection.recv(100, socket.MSG_WAITALL))
    message[40] ^= 1
    connection.sendall(message)


def answer_twice_the_same(connection: socket.socket) -> None:
    first = connection.recv(100, socket.MSG_WAITALL)
    connection.sendall(first)
    connection.recv(100, socket.MSG_WAITALL)
    connection.sendall(first)


@needs_cmake
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answer_another_byte, "connection 0, message 1, byte 0: the reply differs"),
        (answer_twice_the_same, "message 2, byte 0: the reply differs"),
    ],
)
def test_the_client_refuses_a_reply_that_differs_or_is_that_to_an_earlier_message(
    native: Path, answer: Callable[[socket.socket], None], said: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        client = subprocess.Popen(
            [native / "echo_client", "--port", port, "--size", "100", "--connections", "1"],
            stderr=subprocess.PIPE,
            text=True,
        )
        connection, _ = listener.accept()
        with connection:
            answer(connection)
            _, errors = client.communicate(timeout=60)
    assert client.returncode == 1
    assert said in errors


@needs_cmake
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--port is needed"),
        (["--port", "1", "--size", "15"], "--size must be at least 16"),
        (["--port", "1", "--connections", "0"], "--connections must be at least 1"),
        (["--port", "x"], "--port takes a number that is not negative, not 'x'"),
        (["--speed", "1"], "unknown option '--speed'"),
        (["--port"], "--port needs a value"),
    ],
)
def test_the_client_refuses_bad_options(native: Path, arguments: list[str], said: str) -> None:
    done = subprocess.run(
        [native / "echo_client", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert said in done.stderr


@needs_cmake
def test_the_floor_ends_with_its_standard_input(native: Path) -> None:
    with children_on(CORE):
        process = subprocess.Popen(
            [native / "echo_floor"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    assert process.stdout is not None
    assert int(process.stdout.readline()) > 0
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_start_measures_imports_over_bare_python(tmp_path: Path) -> None:
    file = tmp_path / "start.json"
    done = run_page("start", "--quick", "--shared-core", "--json", str(file))
    contenders = json.loads(file.read_text())["contenders"]
    assert len(contenders["bare Python"]["rounds"]) == 3
    assert contenders["asyncio"]["over_bare_ms"]["median"] > 0
    assert (done.returncode == 0) == ("missing" not in contenders["penstock"])


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_idle_sees_that_an_idle_asyncio_loop_makes_no_call(tmp_path: Path) -> None:
    file = tmp_path / "idle.json"
    for _ in range(3):  # a loop that is held up may still start when the span begins
        done = run_page("idle", "--seconds", "0.1", "--shared-core", "--json", str(file))
        assert file.exists(), done.stderr
        seen = json.loads(file.read_text())["contenders"]["asyncio"]["syscalls"]
        if seen == {}:
            break
    assert seen == {}


def test_an_unknown_style_is_refused_with_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["echo", "--styles", "carrier-pigeon"])
    assert ended.value.code == 2
    assert "unknown style 'carrier-pigeon'; choose from protocol" in capsys.readouterr().err


def test_only_a_page_with_its_defaults_is_published_by_default() -> None:
    parser = make_parser(load_pages())

    def narrowed(*arguments: str) -> list[str]:
        return narrowing(parser, arguments[0], parser.parse_args(arguments))

    assert not narrowed("echo")
    assert not narrowed("echo", "--json", "file", "--publish")
    assert narrowed("echo", "--quick")
    assert narrowed("echo", "--loops", "asyncio")
    assert narrowed("start", "--server-core", "1")


@pytest.mark.parametrize(
    "arguments",
    [
        ["files_pyuring", "--rounds", "1"],
        ["echo", "--quick"],
        ["serial", "--part", "loop"],
        ["uvloop_bench", "--clients", "python"],
        ["echo", "--busy"],
        ["echo", "--let-sleep", "--server-core", "0"],
    ],
)
def test_a_narrowed_page_is_not_published(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(*_: object) -> None:
        raise AssertionError("the page was measured")

    monkeypatch.setattr("benchmarks.run.measure_page", measured)
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--publish"])
    assert ended.value.code == 2
    assert f"{arguments[1]} narrows the page" in capsys.readouterr().err


def test_cores_may_be_chosen_for_a_published_page() -> None:
    parser = make_parser(load_pages())
    options = parser.parse_args(["echo", "--server-core", "1", "--publish"])
    check_publishing(parser, options, narrowing(parser, "echo", options))


@pytest.mark.parametrize("page", sorted(load_pages()))
def test_every_page_has_its_place_in_the_documentation(page: str) -> None:
    assert "figures" in between_markers((DOCUMENTS / f"{page}.md").read_text(), page, "figures")


def test_serial_measures_a_library_on_each_loop(
    measure_page: Callable[..., tuple[dict[str, Any], str]],
) -> None:
    contenders = "penstock@asyncio,floor"
    results, printed = measure_page(
        *("serial", "--quick", "--count", "20", "--contenders", contenders),
        *("--part", "loop,memory"),
    )
    rows = {row["labels"][0]: row["contenders"] for row in results["loop: receive"]}
    assert set(rows["asyncio"]) == {"floor", "penstock"}
    assert len(rows["asyncio"]["penstock"]["rounds"]) == 2
    assert results["memory"]["penstock@asyncio"]["receive_into"]["net"] < 1024
    assert "## In the event loop" in printed


def test_serial_polling_measures_each_way_of_a_poll(
    measure_page: Callable[..., tuple[dict[str, Any], str]],
) -> None:
    contenders = "penstock@asyncio,penstock@penstock,penstock,floor,pyserial"
    results, _ = measure_page(
        *("serial_polling", "--rounds", "1", "--count", "20", "--openings", "5"),
        *("--contenders", contenders, "--ports", "3"),
    )
    rows = {tuple(row["labels"]): row["contenders"] for row in results["frame"]}
    assert {"floor", "penstock", "pyserial"} <= set(rows["without an event loop", "none"])
    for way in ("in the event loop", "BufferedByteReceiveStream", "through a portal"):
        for loop in (OWN_LOOP, "asyncio"):
            assert rows[way, loop]["penstock"]["rounds"][0]["p90"] > 0
    (fleet,) = results["ports"]
    assert fleet["contenders"]["penstock"]["rounds"][0]["polls"] == 150
    assert fleet["contenders"]["penstock"]["rounds"][0]["threads"] == 1
    assert fleet["contenders"]["pyserial"]["rounds"][0]["threads"] > 1
    sent = results["line"][0]["contenders"]["penstock"]["percent_of_line"]["median"]
    assert 0 < sent <= 110


def test_serial_polling_asks_a_real_port_only_for_frames(
    measure_page: Callable[..., tuple[dict[str, Any], str]],
) -> None:
    pair = PtyPair()
    with answering_process([pair], None, frames=True):
        results, printed = measure_page(
            *("serial_polling", "--rounds", "1", "--count", "10", "--openings", "3"),
            *("--contenders", "penstock@asyncio,penstock", "--device", pair.path),
        )
    assert f"10 polls of {pair.path}" in printed
    assert results["cancel"][0]["contenders"]["penstock"]["rounds"]
    assert "ports" not in results
    pair.close()


def test_the_serial_soak_reports_what_it_carried(
    measure_page: Callable[..., tuple[dict[str, Any], str]],
) -> None:
    results, printed = measure_page(
        *("serial_soak", "--seconds", "0.3", "--ports", "2", "--loops", "asyncio")
    )
    assert results["loops"]["asyncio"]["received_bytes"] > 0
    assert "| bytes received " in printed
