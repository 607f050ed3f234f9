"""Public names follow the table "One vocabulary" of CONTRIBUTING.md, with its exceptions."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import penstock.alicat
import penstock.files
import penstock.serial
from tests.python.test_docstrings import exported, members, public_modules

# Where the peers' names are kept: alicatlib's, and the columns of a recording.
OF_PEERS = ("penstock.alicat",)
COLUMNS = {"latency_s", "late_s", "first_byte_s"}
OF_ALICATLIB = {"max_drift_ms"}
CLOSED_BY_CLOSE = tuple(
    f"penstock.{package}" for package in ("files", "record", "dash", "websocket", "alicat")
)

SPAN_WITH_UNIT = re.compile(r"_(s|ms|us|sec|secs|seconds|minutes|hours)$")
FORMER = {"qd", "progress_cb", "progress_callback", "on_progress", "concurrency"}


def names_in_signature(function: Any) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # of native code
        return set()


def all_names() -> Iterator[tuple[str, set[str]]]:
    """Each public function, class and method, with the names of its arguments and fields."""
    for name, value in exported().items():
        found = names_in_signature(value)
        if dataclasses.is_dataclass(value):
            found |= {field.name for field in dataclasses.fields(value)}
        yield name, found
        if inspect.isclass(value):
            for member, function in members(value):
                yield f"{name}.{member}", {member} | names_in_signature(function)


NAMES = dict(all_names())


def test_spans_of_time_have_no_unit_in_their_names() -> None:
    wrong = [
        f"{where}: {name}"
        for where, names in NAMES.items()
        for name in sorted(names - COLUMNS - OF_ALICATLIB)
        if SPAN_WITH_UNIT.search(name) and not where.startswith(OF_PEERS)
    ]
    assert wrong == []


def test_former_names_are_not_used() -> None:
    wrong = [f"{where}: {name}" for where, names in NAMES.items() for name in names & FORMER]
    assert wrong == []


def test_what_is_awaited_is_aclose_except_where_a_peers_contract_says_otherwise() -> None:
    wrong = []
    for name, value in exported().items():
        if not inspect.isclass(value):
            continue
        close, aclose = (getattr(value, each, None) for each in ("close", "aclose"))
        if inspect.iscoroutinefunction(close) and not name.startswith(CLOSED_BY_CLOSE):
            wrong.append(f"{name}.close")
        if inspect.isfunction(aclose) and not inspect.iscoroutinefunction(aclose):
            wrong.append(f"{name}.aclose")
    assert wrong == []


def test_there_is_one_class_of_ports_and_one_function_that_lists_them() -> None:
    found: dict[str, set[int]] = {"PortInfo": set(), "list_serial_ports": set()}
    for module_name in public_modules():
        if module_name.startswith(OF_PEERS):
            continue
        module = importlib.import_module(module_name)
        for name in found:
            if hasattr(module, name):
                found[name].add(id(getattr(module, name)))
    assert found["PortInfo"] == {id(penstock.serial.PortInfo)}
    assert found["list_serial_ports"] == {id(penstock.serial.list_serial_ports)}


def test_what_opens_something_can_be_entered_without_await() -> None:
    opening = {}
    for package in (penstock.alicat, penstock.files, penstock.serial):
        opening |= {
            name: getattr(package, name) for name in package.__all__ if name.startswith("open_")
        }
    assert {"open_serial_port", "open_device", "open_controller", "open_tar"} <= set(opening)
    # The result of a plain coroutine function can only be awaited.
    assert [name for name, each in opening.items() if inspect.iscoroutinefunction(each)] == []
