"""``run.toml``: a strict, typed reader that reports each error in one sentence.

Every error names the file, the table and key, the value found, and what to write instead. An
unknown key is an error too: a misspelt ``duratoin`` that is silently ignored can cost a night of
measurements.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.cli._alicat.modbus_families import MODBUS_FAMILIES
from penstock.cli._dashboard.plan import ChartLayout
from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._limits import LimitPlan
from penstock.cli._recording.plan import (
    DEFAULT_FORMATS,
    FORMATS,
    AlarmPlan,
    DevicePlan,
    ModbusPlan,
    SafeStatePlan,
    SetpointStep,
    SinkPlan,
)
from penstock.cli._toml_table import Table, refuse_config
from penstock.record.addresses import scheme_of

_MAX_BYTES = 1 << 20
_MAX_RATE_HZ = 1000.0
_MAX_SECONDS = 10 * 366 * 86400.0
_MAX_SETPOINT = 1e9
_MAX_LIMIT = 1e15
_PROTOCOLS = ("ascii", "modbus-rtu", "modbus-tcp")
_KEYS = (
    "name",
    "port",
    "unit_id",
    "baudrate",
    "timeout",
    "rate_hz",
    "setpoint",
    "protocol",
    "required",
    "limit",
    "safe_state",
)
_MODBUS_KEYS = ("number", "family", "units", "decimals", "assume_same_instrument")


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The contents of a ``run.toml``; ``duration`` and ``out`` are None if it omits them."""

    rate_hz: float
    duration: float | None
    out: Path | None
    formats: tuple[str, ...]
    devices: tuple[DevicePlan, ...]
    fallback: Path | None = None
    alarm: AlarmPlan | None = None
    sinks: tuple[SinkPlan, ...] = ()
    charts: tuple[ChartLayout, ...] = ()


def load_config(path: str | os.PathLike[str]) -> RunConfig:
    """Read and check the configuration file at ``path``.

    Opens only that file.

    Raises:
        CommandError: (exit code CONFIG) if the file cannot be read or is malformed.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        refuse_config(f"configuration file {name} does not exist; check the path")
    except IsADirectoryError:
        refuse_config(f"configuration file {name} is a folder; name the TOML file in it")
    except PermissionError:
        refuse_config(
            f"configuration file {name} cannot be read: no permission; change its permissions "
            "(chmod u+r)"
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        refuse_config(
            f"configuration file {name!r} cannot be read: {reason or one_line(error)}; "
            "check the path"
        )
    if len(data) > _MAX_BYTES:
        refuse_config(f"configuration file {name} is larger than 1 MiB; it cannot be a run.toml")
    return parse_config(data, name)


def parse_config(data: bytes, name: str) -> RunConfig:
    """Check the bytes of a configuration file; error messages refer to it as ``name``."""
    try:
        text = data.decode("utf-8-sig")  # editors of Windows begin a file with a mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        refuse_config(f"{name}: line {line} is not UTF-8 text; save the file as UTF-8")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        refuse_config(f"{name}: not valid TOML: {one_line(error)}; correct that line")
    except (ValueError, RecursionError) as error:
        # Numbers with thousands of digits and deeply nested brackets raise no TOMLDecodeError.
        refuse_config(f"{name}: not valid TOML: {one_line(error)}; compare with examples/run.toml")

    top = Table(name, "the top level", document)
    top.refuse_unknown(("record", "device", "alarm", "sink", "dash"))
    record = top.table("record")
    record.refuse_unknown(("rate_hz", "duration", "out", "formats", "fallback"))
    rate_hz = record.number("rate_hz", "a rate in hertz", above=0.0, to=_MAX_RATE_HZ, default=10.0)
    duration = None
    if "duration" in record.entries:
        duration = record.number("duration", "a time in seconds", above=0.0, to=_MAX_SECONDS)
    out = Path(record.text("out", "the folder for the files")) if "out" in record.entries else None
    formats = record.choices("formats", FORMATS, DEFAULT_FORMATS)
    fallback = None
    if "fallback" in record.entries:
        fallback = Path(record.text("fallback", "a folder on another disk"))
    devices = tuple(_device(table, duration) for table in top.tables("device"))
    if not devices:
        refuse_config(f"{name}: there is no [[device]] table; add one with a name and a port")
    _refuse_conflicts(name, devices)
    _refuse_unknown_devices(name, devices)
    alarm = _alarm(top.table("alarm")) if "alarm" in top.entries else None
    sinks = tuple(sink_plan(table) for table in top.tables("sink"))
    charts = chart_layouts(top, [device.name for device in devices])
    return RunConfig(rate_hz, duration, out, formats, devices, fallback, alarm, sinks, charts)


def _alarm(table: Table) -> AlarmPlan:
    files = ("secret_file", "password_file", "ca_file")
    table.refuse_unknown(("command", "timeout", "webhook", "mqtt", "book", "latch", *files))
    command: tuple[str, ...] = ()
    if "command" in table.entries or not table.entries.keys() & {"webhook", "mqtt", "book"}:
        command = table.words("command", 'a program and its arguments, such as ["logger", "flow"]')
        if shutil.which(command[0]) is None:
            table.refuse("command", "cannot be run: there is no such program", "correct its path")
    timeout = table.number("timeout", "a time in seconds", above=0.0, to=600.0, default=10.0)

    def text(key: str, meaning: str) -> str | None:
        return table.text(key, meaning) if key in table.entries else None

    book = text("book", "a file for the states of alarms")
    return AlarmPlan(
        command,
        timeout,
        webhook=text("webhook", "the URL of a web hook"),
        secret_file=text("secret_file", "the file with the web hook's secret"),
        mqtt=text("mqtt", "the URL of a broker, such as mqtt://HOST/PREFIX"),
        password_file=text("password_file", "the file with the broker's password"),
        ca_file=text("ca_file", "a file with certificates"),
        book=None if book is None else Path(book),
        latch=table.truth("latch"),
    )


def _limit(table: Table) -> LimitPlan:
    table.refuse_unknown(("field", "low", "high", "unit", "hysteresis", "delay", "safe"))
    field = table.text("field", 'a column of the recording, such as "Mass_Flow"')
    low, high = (
        table.number(key, "a number in the unit of the field", low=-_MAX_LIMIT, to=_MAX_LIMIT)
        if key in table.entries
        else None
        for key in ("low", "high")
    )
    if low is None and high is None:
        table.refuse("field", "has no limit", "write low, high, or both beside it")
    hysteresis = table.number("hysteresis", "a number", low=0.0, to=_MAX_LIMIT, default=0.0)
    if low is not None and high is not None:
        if low >= high:
            table.refuse("low", f"is not below high = {high:g}", "exchange them")
        if 2 * hysteresis > high - low:
            table.refuse("hysteresis", "leaves no value that ends an alarm", "make it smaller")
    return LimitPlan(
        field,
        low,
        high,
        table.text("unit", 'a unit such as "SCCM"') if "unit" in table.entries else None,
        hysteresis,
        table.number("delay", "a time in seconds", low=0.0, to=_MAX_SECONDS, default=0.0),
        table.words("safe", "the names of devices") if "safe" in table.entries else None,
    )


def _safe_state(table: Table) -> SafeStatePlan:
    table.label = "[device.safe_state]"
    table.refuse_unknown(("setpoint", "unit", "ramp", "hold", "on"))
    on = table.choices("on", ("alarm", "exit"), ("alarm", "exit"))
    on_alarm, on_exit = "alarm" in on, "exit" in on
    if table.truth("hold"):
        for key in ("setpoint", "unit", "ramp"):
            if key in table.entries:
                table.refuse(key, "is given together with hold = true", "write one of them")
        return SafeStatePlan(on_alarm=on_alarm, on_exit=on_exit)
    setpoint = table.number("setpoint", "a setpoint, or hold = true", to=_MAX_SETPOINT)
    unit = table.text("unit", 'the unit of the setpoint, such as "SCCM"')
    ramp = None
    if "ramp" in table.entries:
        ramp = table.number(
            "ramp", "a change of the setpoint per second", above=0.0, to=_MAX_SETPOINT
        )
    return SafeStatePlan(setpoint, unit, ramp, on_alarm, on_exit)


def _device(table: Table, duration: float | None) -> DevicePlan:
    table.refuse_unknown(_KEYS + _MODBUS_KEYS)
    name = table.text("name", 'a name of your own, such as "argon"')
    table.label = f'[[device]] "{name}"'
    port = table.text("port", 'the path of a serial port, such as "/dev/ttyUSB0"')
    protocol = table.choice("protocol", _PROTOCOLS)
    modbus = None if protocol == "ascii" else _modbus(table, protocol.removeprefix("modbus-"))
    unit_id = str(modbus.number) if modbus is not None else _letter(table)
    baudrate = table.integer("baudrate", "a baud rate", low=50, high=4_000_000, default=19200)
    timeout = table.number("timeout", "a time in seconds", above=0.0, to=60.0, default=0.5)
    rate_hz = None
    if "rate_hz" in table.entries:
        rate_hz = table.number("rate_hz", "a rate in hertz", above=0.0, to=_MAX_RATE_HZ)
    steps: list[SetpointStep] = []
    for step in table.tables("setpoint"):
        step.refuse_unknown(("at", "value"))
        at = step.number("at", "the seconds since the start", low=0.0, to=_MAX_SECONDS)
        value = step.number("value", "the setpoint", to=_MAX_SETPOINT)
        if duration is not None and at >= duration:
            step.refuse(
                "at",
                f"lies after the end of the run (duration = {duration:g})",
                "make it smaller or make the run longer",
            )
        if steps and at <= steps[-1].at:
            step.refuse(
                "at",
                f"is not later than the previous step (at = {steps[-1].at:g})",
                "write the steps in order of time",
            )
        steps.append(SetpointStep(at, value))
    return DevicePlan(
        name,
        port,
        unit_id,
        baudrate,
        timeout,
        tuple(steps),
        rate_hz,
        modbus,
        required=table.truth("required"),
        limits=tuple(_limit(limit) for limit in table.tables("limit")),
        safe_state=_safe_state_of(table, modbus),
    )


def _safe_state_of(table: Table, modbus: ModbusPlan | None) -> SafeStatePlan | None:
    if "safe_state" not in table.entries:
        return None
    if modbus is not None:
        table.refuse("safe_state", "is for the text protocol", "leave it out")
    return _safe_state(table.table("safe_state"))


def _letter(table: Table) -> str:
    for key in _MODBUS_KEYS:
        if key in table.entries:
            table.refuse(key, "is for Modbus", 'write protocol = "modbus-rtu" beside it')
    unit_id = table.text("unit_id", "one letter, A to Z", default="A")
    if len(unit_id) != 1 or unit_id not in "ABCDEFGHIJKLMNOPQRSTUVWXYZ":
        table.refuse("unit_id", "is not a unit id", "write one capital letter, A to Z")
    return unit_id


def _modbus(table: Table, framing: str) -> ModbusPlan:
    if "unit_id" in table.entries:
        table.refuse("unit_id", "is for the text protocol", "write number = 1 instead")
    number = table.integer("number", "a Modbus number", low=1, high=247, default=1)
    family = table.choice("family", MODBUS_FAMILIES)
    units = table.entries.get("units", {})
    if not isinstance(units, dict) or not all(isinstance(unit, str) for unit in units.values()):
        table.refuse("units", "is not a table of units", 'write units = { mass_flow = "SCCM" }')
    decimals = None
    if family.startswith("basis-"):
        decimals = table.integer("decimals", "the decimals of its flow", low=0, high=6)
    elif "decimals" in table.entries:
        table.refuse("decimals", "is for BASIS instruments", f"leave it out for {family}")
    same = table.truth("assume_same_instrument")
    return ModbusPlan(framing, number, family, units, decimals, same)


def _refuse_unknown_devices(file: str, devices: Sequence[DevicePlan]) -> None:
    safe = {device.name: device.safe_state for device in devices}
    for device in devices:
        for other in (name for limit in device.limits for name in limit.safe or ()):
            if other not in safe:
                refuse_config(
                    f'{file}: a limit of "{device.name}" has safe = ["{other}"], which is not a '
                    f"device; the devices are {', '.join(safe)}"
                )
            state = safe[other]
            if state is None or not state.on_alarm:
                refuse_config(
                    f'{file}: a limit of "{device.name}" has safe = ["{other}"], which has no '
                    "safe_state for alarms; write one, or leave it out"
                )


def _refuse_conflicts(file: str, devices: Sequence[DevicePlan]) -> None:
    names: set[str] = set()
    units: dict[tuple[str, str], str] = {}
    ports: dict[str, DevicePlan] = {}
    for device in devices:
        if device.name in names:
            refuse_config(
                f'{file}: two [[device]] tables have name = "{device.name}"; '
                "give each device its own name"
            )
        names.add(device.name)
        # A by-id link and its target are the same port: two devices would read the same bytes.
        real = os.path.realpath(device.port)
        other = units.setdefault((real, device.unit_id), device.name)
        if other != device.name:
            what, key = ("unit id", "unit_id") if device.modbus is None else (("number",) * 2)
            refuse_config(
                f'{file}: devices "{other}" and "{device.name}" are both {what} '
                f"{device.unit_id} on {device.port}; give each its own {key} or port"
            )
        first = ports.setdefault(real, device)
        if _protocol_of(first) != _protocol_of(device):
            refuse_config(
                f'{file}: devices "{first.name}" and "{device.name}" share {device.port} but speak '
                f"{_protocol_of(first)} and {_protocol_of(device)}; a port has one protocol"
            )
        if first.baudrate != device.baudrate:
            refuse_config(
                f'{file}: devices "{first.name}" and "{device.name}" share {device.port} but have '
                f"baudrate = {first.baudrate} and {device.baudrate}; a port has one baud rate"
            )


def _protocol_of(device: DevicePlan) -> str:
    return "ascii" if device.modbus is None else f"modbus-{device.modbus.framing}"


# The servers of a run: the ``[[sink]]`` tables of its file, and ``--to`` of the command line.

_SPOOLED = ("spool", "spool_bytes", "loss_interval")
_INFLUX = ("measurement", "events", "token_file", "ca_file", *_SPOOLED)
_MQTT = ("password_file", "ca_file", "lag", *_SPOOLED)
_NATS = ("stream", "token_file", "ca_file", "lag", *_SPOOLED)
_POSTGRES = ("table", "timescale", *_SPOOLED)
_OPTIONS: dict[str, tuple[str, ...]] = {
    "influx": _INFLUX,
    "influxs": _INFLUX,
    "mqtt": _MQTT,
    "mqtts": _MQTT,
    "sparkplug": _MQTT,
    "sparkplugs": _MQTT,
    "nats": _NATS,
    "natss": _NATS,
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
}
_EXAMPLE = '"influx://lab-server:8086/lab"'


def sink_plan(table: Table) -> SinkPlan:
    """The plan of a ``[[sink]]`` table."""
    url = table.text("url", f"the address of a server, such as {_EXAMPLE}")
    scheme = scheme_of(url)
    if scheme not in _OPTIONS:
        raise CommandError(
            f"{table.file}: {table.label}: the kind of the url is unknown; {_known()}",
            ExitCode.CONFIG,
        )
    table.refuse_unknown(("url", *_OPTIONS[scheme]))
    options = {name: _option(table, name) for name in _OPTIONS[scheme] if name in table.entries}
    plan = SinkPlan(url, options)
    if (wrong := _wrong(plan)) is not None:
        # Without the value: it may hold a password.
        raise CommandError(f"{table.file}: {table.label}: {wrong}", ExitCode.CONFIG)
    return plan


def _option(table: Table, name: str) -> str | float | bool:
    if name == "spool_bytes":
        return table.integer(name, "a number of bytes", low=1 << 20, high=1 << 50)
    if name == "loss_interval":
        return table.number(name, "seconds", low=0, to=3600)
    if name == "lag":
        return table.number(name, "seconds", low=0, to=86_400)
    if name == "timescale":
        return table.truth(name)
    return table.text(name, "a name")


def sink_of_option(url: str) -> SinkPlan:
    """The plan of ``--to URL``."""
    plan = SinkPlan(url)
    if scheme_of(url) not in _OPTIONS:
        raise CommandError(f"the kind of the URL after --to is unknown; {_known()}", ExitCode.USAGE)
    if (wrong := _wrong(plan)) is not None:
        raise CommandError(f"--to: {wrong}", ExitCode.USAGE)
    return plan


def _wrong(plan: SinkPlan) -> str | None:
    """Why there can be no sink of this plan."""
    from penstock.record.sink_choice import check_url

    try:
        check_url(plan.url)
    except ValueError as error:
        return str(error)
    return None


def _known() -> str:
    return f"write one of {', '.join(f'{scheme}://' for scheme in _OPTIONS)}, such as {_EXAMPLE}"


# The ``[[dash.chart]]`` tables of a ``run.toml``: charts that the page shows to everybody.

_SIDES = ("left", "right")


def chart_layouts(top: Table, devices: Collection[str]) -> tuple[ChartLayout, ...]:
    """The charts of the ``dash`` table of ``top``.

    Args:
        top: the file.
        devices: the names of its devices.

    Raises:
        CommandError: a table is malformed, or names another device.
    """
    dash = top.table("dash")
    dash.refuse_unknown(("chart",))
    return tuple(_chart(table, devices) for table in dash.tables("chart"))


def _chart(table: Table, devices: Collection[str]) -> ChartLayout:
    table.label = table.label.replace("[[chart]]", "[[dash.chart]]")
    table.refuse_unknown(("title", *_SIDES, "log"))
    curves = {side: _curves(table, side, devices) for side in _SIDES if side in table.entries}
    if not curves:
        table.text("left", 'curves such as ["argon.Mass_Flow"], as a list, or right')
    return ChartLayout(
        table.text("title", "the title of the chart") if "title" in table.entries else "",
        curves.get("left", ()),
        curves.get("right", ()),
        table.choices("log", _SIDES, ()) if "log" in table.entries else (),
    )


def _curves(table: Table, side: str, devices: Collection[str]) -> tuple[tuple[str, str], ...]:
    found = []
    for text in table.words(side, 'curves such as ["argon.Mass_Flow"]'):
        # The name of a device may have dots, that of a field has none.
        device, _, field = text.rpartition(".")
        if device not in devices or not field:
            table.refuse(
                side,
                f'has "{text}", which is not a device and a field',
                f"write DEVICE.FIELD; the devices are {', '.join(devices)}",
            )
        found.append((device, field))
    return tuple(found)
