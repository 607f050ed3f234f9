"""The C++ pages' stand: the program for each contender."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.measure.affinity import Cores
from benchmarks.measure.echo_stand import Cell
from benchmarks.measure.library_stand import ECHO, LIBRARIES, SOURCE, LibraryStand, add_libraries

STAND = LibraryStand(Path("/programs"), Cores(server=0, client=1), load="stream_sink")


def test_each_library_has_a_server_of_its_name_with_both_jobs() -> None:
    for name in LIBRARIES:
        assert STAND.server_command(name, ECHO) == [f"/programs/server_{name}", "echo"]
        source = STAND.source_command(name, Cell(SOURCE, 64, 1))
        assert source == [f"/programs/server_{name}", "source", "64"]


def test_the_floor_is_a_program_for_each_job() -> None:
    assert STAND.server_command("floor", ECHO) == ["/programs/echo_floor"]
    source = STAND.source_command("floor", Cell(SOURCE, 64, 1))
    assert source == ["/programs/source_floor", "source", "64"]


def test_the_load_command_has_the_size() -> None:
    command = STAND.load_command(Cell(SOURCE, 64, 1), "1234")
    assert command[:5] == ["/programs/stream_sink", "--port", "1234", "--size", "64"]


def test_a_library_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_libraries(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--libraries", "boost"])
    assert "unknown library 'boost'" in capsys.readouterr().err
