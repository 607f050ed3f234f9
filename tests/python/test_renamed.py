"""Arguments that had another name take it for one release more, with a warning."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import dash, files, record, uring
from penstock.alicat import FlowController, find_devices
from penstock.alicat import sync as alicat_sync
from penstock.alicat.modbus import find_modbus_devices
from penstock.record import archives
from penstock.record.sink_choice import sink_for

Arguments = Callable[[Path], tuple[Any, ...]]


def copied(folder: Path) -> tuple[Any, ...]:
    (folder / "from").write_bytes(b"x" * 10)
    return folder / "from", folder / "to"


def written(folder: Path) -> tuple[Any, ...]:
    return ([(folder / "to", b"y" * 10)],)


def named(name: str) -> Arguments:
    return lambda folder: (folder / name,)


def text(*arguments: str) -> Arguments:
    return lambda folder: arguments


def nothing(folder: Path) -> tuple[Any, ...]:
    return ([],)


CSV, JSONL, ARROW, PARQUET = named("a.csv"), named("a.jsonl"), named("a.arrow"), named("a.parquet")
INFLUX, MQTT, NATS = text("influx://db/lab"), text("mqtt://broker/lab"), text("nats://server/lab")
SPARKPLUG, POSTGRES = text("sparkplug://broker/lab/node"), text("postgresql://db/lab")

# Function, what it is given, old name, new name, value.
RENAMED: list[tuple[Callable[..., Any], Arguments, str, str, Any]] = [
    (uring.copy, copied, "qd", "queue_depth", 2),
    (uring.copy, copied, "progress_cb", "progress", lambda done, size: None),
    (uring.write_many, written, "progress_cb", "progress", lambda files, size: None),
    (record.CsvSink, CSV, "rotate_seconds", "rotate_interval", 60.0),
    (record.CsvSink, CSV, "loss_seconds", "loss_interval", 2.0),
    (record.JsonlSink, JSONL, "rotate_seconds", "rotate_interval", 60.0),
    (record.JsonlSink, JSONL, "loss_seconds", "loss_interval", 2.0),
    (record.ArrowSink, ARROW, "seal_seconds", "seal_interval", 2.0),
    (record.ArrowSink, ARROW, "part_seconds", "part_duration", 60.0),
    (record.ArrowSink, ARROW, "loss_seconds", "loss_interval", 2.0),
    (record.ParquetSink, PARQUET, "seal_seconds", "seal_interval", 2.0),
    (record.ParquetSink, PARQUET, "part_seconds", "part_duration", 60.0),
    (record.ParquetSink, PARQUET, "loss_seconds", "loss_interval", 2.0),
    (record.SqliteSink, named("a.sqlite"), "loss_seconds", "loss_interval", 2.0),
    (sink_for, CSV, "loss_seconds", "loss_interval", 2.0),
    (record.InfluxSink, INFLUX, "loss_seconds", "loss_interval", 2.0),
    (record.MqttSink, MQTT, "loss_seconds", "loss_interval", 2.0),
    (record.NatsSink, NATS, "loss_seconds", "loss_interval", 2.0),
    (record.SparkplugSink, SPARKPLUG, "loss_seconds", "loss_interval", 2.0),
    (record.PostgresSink, POSTGRES, "loss_seconds", "loss_interval", 2.0),
    (dash.Board, text("run"), "silence_s", "silence", 2.0),
    (archives.RunOptions, text(), "part_seconds", "part_duration", 5.0),
    (alicat_sync.find_devices, nothing, "on_progress", "progress", print),
    (alicat_sync.find_modbus_devices, nothing, "on_progress", "progress", print),
]
EACH = pytest.mark.parametrize(
    ("function", "arguments", "old", "new", "value"),
    RENAMED,
    ids=[f"{function.__name__}-{old}" for function, _, old, _, _ in RENAMED],
)


@EACH
def test_old_name_works_and_warns(
    function: Callable[..., Any],
    arguments: Arguments,
    old: str,
    new: str,
    value: Any,
    tmp_path: Path,
) -> None:
    given = arguments(tmp_path)
    with pytest.warns(DeprecationWarning, match=rf"\(\): {old} is now {new};") as warned:
        by_old = function(*given, **{old: value})
    assert [warning.filename for warning in warned] == [__file__]
    by_new = function(*given, **{new: value})  # without a warning, which would be an error
    assert type(by_old) is type(by_new)
    if isinstance(by_new, int):
        assert by_old == by_new == 10


@EACH
def test_only_the_new_name_is_in_the_signature(
    function: Callable[..., Any], arguments: Arguments, old: str, new: str, value: Any
) -> None:
    names = inspect.signature(function).parameters
    assert new in names and old not in names


@EACH
def test_both_names_at_once_are_refused(
    function: Callable[..., Any],
    arguments: Arguments,
    old: str,
    new: str,
    value: Any,
    tmp_path: Path,
) -> None:
    given = arguments(tmp_path)
    with pytest.raises(
        TypeError, match=f"{function.__name__}.* got {old} and {new}; give only {new}"
    ):
        function(*given, **{old: value, new: value})


@pytest.mark.parametrize(
    ("instance", "old", "new"),
    [
        (dash.Board("run", silence=2.0), "silence_s", "silence"),
        (archives.RunOptions(part_duration=5.0), "part_seconds", "part_duration"),
    ],
)
def test_a_field_is_read_by_its_old_name_with_a_warning(instance: Any, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new};") as warned:
        assert getattr(instance, old) == getattr(instance, new)
    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    ("instance", "old", "new"),
    [
        (dash.Board("run", silence=2.0), "silence_s", "silence"),
        (archives.RunOptions(part_duration=5.0), "part_seconds", "part_duration"),
    ],
)
def test_dataclasses_replace_takes_a_field_by_its_old_name_with_a_warning(
    instance: Any, old: str, new: str
) -> None:
    with pytest.warns(DeprecationWarning, match=rf"\(\): {old} is now {new};") as warned:
        changed = dataclasses.replace(instance, **{old: 9.0})
    assert [warning.filename for warning in warned] == [__file__]
    assert getattr(changed, new) == 9.0
    assert changed == dataclasses.replace(instance, **{new: 9.0})
    assert dataclasses.replace(instance) == instance


@pytest.mark.parametrize(("old", "new"), [("hold_s", "hold_duration"), ("interval_s", "interval")])
@pytest.mark.anyio
async def test_a_coroutine_function_warns_when_it_is_awaited(old: str, new: str) -> None:
    settle: Callable[..., Any] = FlowController.settle
    assert inspect.iscoroutinefunction(settle)
    assert new in inspect.signature(settle).parameters
    with pytest.raises(TypeError, match=f"got {old} and {new}; give only {new}"):
        await settle(None, **{old: 1.0, new: 1.0})
    there_is_no_instrument = pytest.raises(AttributeError)
    with pytest.warns(match=f"{old} is now {new};") as warned, there_is_no_instrument:
        await settle(None, **{old: 1.0})
    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    ("function", "old", "new", "value"),
    [
        (files.read_files, "limit", "queue_depth", 2),
        (files.stat_many, "limit", "queue_depth", 2),
        (find_devices, "on_progress", "progress", print),
        (find_modbus_devices, "on_progress", "progress", print),
    ],
)
@pytest.mark.anyio
async def test_an_old_name_works_where_the_function_is_awaited(
    function: Callable[..., Any], old: str, new: str, value: Any
) -> None:
    names = inspect.signature(function).parameters
    assert new in names and old not in names
    with pytest.warns(DeprecationWarning, match=rf"\(\): {old} is now {new};") as warned:
        by_old = await function([], **{old: value})
    assert [warning.filename for warning in warned] == [__file__]
    assert list(by_old) == list(await function([], **{new: value})) == []
