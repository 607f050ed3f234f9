"""``penstock serve``: one process, or a supervisor with its workers."""

from __future__ import annotations

import argparse
import os
import signal
from functools import partial

from penstock.cli._errors import ExitCode
from penstock.cli._interrupts import Interrupts
from penstock.cli._metrics_endpoint import MetricsEndpoint
from penstock.cli._serve.application import read_env_file
from penstock.cli._serve.changes import ChangedFiles
from penstock.cli._serve.checking import check
from penstock.cli._serve.logs import set_up_logs
from penstock.cli._serve.metrics.memory import SharedCounters
from penstock.cli._serve.metrics.page import metrics_page
from penstock.cli._serve.running import run_process
from penstock.cli._serve.sockets import bound_sockets, place_of, remove_socket_file
from penstock.cli._serve.supervisor import Supervisor

__all__ = ["run_serve"]


def run_serve(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Serve until SIGINT or SIGTERM. Ctrl-C is the usual end: exit code 0."""
    if options.env_file is not None:
        for name, value in read_env_file(options.env_file).items():
            os.environ.setdefault(name, value)
    loggers = set_up_logs(options)
    log = loggers.error
    if options.h11_max_incomplete_event_size is not None:
        log.warning("--h11-max-incomplete-event-size has no effect: a head has at most 64 KiB")
    if options.reload and options.workers > 1:
        log.warning("--workers has no effect with --reload")
    if options.check:
        return check(options, loggers)
    sockets = bound_sockets(options)
    shared = endpoint = None
    try:
        if options.metrics is not None:
            shared = SharedCounters()
            endpoint = MetricsEndpoint(options.metrics, partial(metrics_page, shared))
            log.info("Metrics on %s", endpoint.place)
        if options.reload or options.workers > 1:
            for each in sockets:
                each.listen(options.backlog)
                each.set_inheritable(True)
            place = place_of(options, sockets)
            by = " and reloading" if options.reload else f" with {options.workers} workers"
            log.info("Serving on %s%s (Press CTRL+C to quit)", place, by)
            changed = ChangedFiles(options) if options.reload else lambda: False
            ended_by = Supervisor(options, sockets, log, changed, shared).run()
            if ended_by is None:
                return ExitCode.CONFIG
        else:
            counters = None if shared is None else shared.place(shared.take())
            place = place_of(options, sockets)
            ended_by = run_process(options, loggers, sockets, place, counters=counters)
    finally:
        if endpoint is not None:
            endpoint.close()
        remove_socket_file(options)
        for each in sockets:
            each.close()
    return ExitCode.TERMINATED if ended_by == signal.SIGTERM else ExitCode.OK
