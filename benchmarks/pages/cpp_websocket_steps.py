"""A WebSocket server in C++ made faster step by step: the table of a published comparison.

That comparison shows what TCP_NODELAY, one write for header and payload, buffers that are kept, and
unmasking by words gave its server. ``cpp/libraries/websocket_steps.cpp`` takes the same steps on
Penstock's TCP streams, so that each can be seen by itself; ``penstock`` is `ws::Server`.
"""

from __future__ import annotations

import argparse

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU_WITHOUT_FLOOR, Loaded, Sample, run_load
from benchmarks.measure.comparison import compare_in_rounds
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage, crossed, in_panels
from benchmarks.measure.echo_stand import masked_frame_size, size_name
from benchmarks.measure.library_stand import library_facts
from benchmarks.measure.native import build_libraries
from benchmarks.measure.page import Report, Say
from benchmarks.measure.processes import Unavailable, server
from benchmarks.measure.sequential import (
    SERVERS_IN_TURN,
    WALL_OF_MESSAGE,
    WARM_UP,
    add_sequential,
    sequential_method,
)

SUMMARY = "C++: a WebSocket server made faster step by step"

ORIGINAL = "original"
STEPS = [ORIGINAL, "no_delay", "one_write", "buffers", "words"]
SIZES = [64, 1024, 4096, 65536]
MESSAGES = [10, 100, 1000]
SETTLING_REQUESTS = 10
MOST_WITH_NAGLE = 100  # messages of the server that waits 44 ms for each
COSTS = [Cost(WALL_OF_MESSAGE, Sample)]
COMPARISON_OPTIONS = ["--libraries", "penstock"]
PAGE = DeclaredPage(
    name="cpp_websocket_steps",
    labels=["message", "messages"],
    metrics=[WALL_OF_MESSAGE, CPU_WITHOUT_FLOOR],
    charts={
        "cpp_websocket_steps": Bars(
            "C++ WebSocket echo, one connection: server CPU (less is better)",
            "µs / message",
            CPU_WITHOUT_FLOOR,
            in_panels(crossed),
        )
    },
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    quick = "one round of 10 messages"
    add_sequential(parser, [OURS, *STEPS], SIZES, MESSAGES, rounds=5, quick=quick)


def _round(native: str, name: str, size: int, count: int, cores: Cores) -> Sample:
    if name == ORIGINAL and count > MOST_WITH_NAGLE:
        raise Unavailable("with Nagle's algorithm each message takes about 44 ms")
    load, content = "websocket_client", size
    if name == FLOOR:
        command, load, content = [f"{native}/echo_floor"], "echo_client", masked_frame_size(size)
    elif name == OURS:
        command = [f"{native}/websocket_penstock"]
    else:
        command = [f"{native}/websocket_steps", name]
    with server(command, cores.server) as running:
        client = [f"{native}/{load}", "--port", running.ready_line]
        client += ["--size", str(content), "--connections", "1"]
        run_load(client, cores, "--requests", SETTLING_REQUESTS, "--warmup", 0)
        return Loaded(running, client, cores).load("--requests", count, warmup=WARM_UP)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every size and number of messages, the steps in turn."""
    facts = library_facts([], [])
    if options.quick:
        options.rounds, options.messages = 1, options.messages[:1]
    native = str(build_libraries())
    comparisons = compare_in_rounds(
        {
            (size_name(size), str(count)): (size, count)
            for size in options.sizes
            for count in options.messages
        },
        [FLOOR, *options.libraries],
        options.rounds,
        lambda row, name: _round(native, name, *row, cores),
        say,
    )
    return PAGE.report(comparisons, facts, sequential_method(options, cores, SERVERS_IN_TURN))
