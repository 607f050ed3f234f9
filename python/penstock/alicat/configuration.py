"""The settings of an instrument as one document: read, compared, and written back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from penstock.alicat._devices.controller import FlowController, PressureController
from penstock.alicat._devices.device import Device
from penstock.alicat.commands import (
    Commands,
    StpNtpMode,
    StreamingRateRequest,
    TimeUnit,
    TotalizerId,
    TotalizerLimitMode,
    TotalizerMode,
)
from penstock.alicat.commands.totalizer import TOTALIZER_DISABLED_CODE
from penstock.alicat.errors import (
    AlicatCapabilityError,
    AlicatCommandRejectedError,
    AlicatError,
    AlicatMediumMismatchError,
    AlicatValidationError,
)
from penstock.alicat.registry import LoopControlVariable

__all__ = [
    "Configuration",
    "Difference",
    "differences",
    "read_configuration",
    "restore_configuration",
]

_NOT_THERE = (
    AlicatCapabilityError,
    AlicatCommandRejectedError,
    AlicatMediumMismatchError,
)
_FORMAT: Final = "penstock alicat configuration 1"
_IDENTITY: Final[tuple[str, ...]] = ("model", "serial", "firmware", "kind")

Value = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings of one instrument by name; each is an object of plain values."""

    identity: Mapping[str, str]
    """Model, serial number, firmware and kind of the instrument that they were read from."""
    settings: Mapping[str, Value]
    unreadable: Mapping[str, str]
    """Settings that the instrument does not have or does not report, each with the reason."""

    def to_document(self) -> dict[str, Any]:
        """An object of plain values, for a JSON file."""
        return {"format": _FORMAT, **asdict(self)}

    @classmethod
    def from_document(cls, document: object) -> Configuration:
        """Make a configuration of what :meth:`to_document` returned.

        Raises:
            AlicatValidationError: it is something else.
        """
        if isinstance(document, dict) and document.get("format") == _FORMAT:
            parts = [document.get(name) for name in ("identity", "settings", "unreadable")]
            if all(isinstance(part, dict) for part in parts):
                identity, settings, unreadable = parts
                assert identity is not None and settings is not None and unreadable is not None
                if all(isinstance(value, dict) for value in settings.values()):
                    return cls(identity, settings, unreadable)
        raise AlicatValidationError(
            f"this is not the configuration of an instrument: it has no format {_FORMAT!r}; save "
            "one with penstock alicat config save"
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that differs between two configurations; ``None`` if one does not have it."""

    name: str
    before: Value | None
    after: Value | None


def differences(before: Configuration, after: Configuration) -> tuple[Difference, ...]:
    """The settings that are not the same, in order."""
    names = dict.fromkeys((*before.settings, *after.settings))
    found = (Difference(n, before.settings.get(n), after.settings.get(n)) for n in names)
    return tuple(difference for difference in found if difference.before != difference.after)


async def read_configuration(device: Device) -> Configuration:
    """Read every setting that the instrument has. Changes nothing.

    Setpoint, tares and totals are not settings.

    Raises:
        AlicatError: the instrument does not answer, or the answer is not understood.
    """
    facts = device.info.facts()
    settings: dict[str, Value] = {}
    unreadable: dict[str, str] = {}
    for name, setting in _settings_of(device).items():
        try:
            settings[name] = await setting.read()
        except _NOT_THERE as error:
            unreadable[name] = str(error)
    identity = {name: facts[name] for name in _IDENTITY if name in facts}
    return Configuration(identity, settings, unreadable)


async def restore_configuration(
    device: Device, wanted: Configuration, *, confirm: bool = False
) -> tuple[Difference, ...]:
    """Write the settings that differ from ``wanted``, units first, and read all back.

    Returns:
        The settings that still differ; empty if all were restored.

    Raises:
        AlicatValidationError: ``confirm`` is not true, or ``wanted`` is of another model; nothing
            was sent.
        AlicatError: the instrument refused a setting or did not answer. Settings before it are
            written, those after it are not.
    """
    model, theirs = device.info.model, wanted.identity.get("model")
    if theirs is not None and model is not None and theirs != model:
        raise AlicatValidationError(
            f"the configuration is of a {theirs}, and unit {device.unit_id} is a {model}: restore "
            "one of the same model"
        )
    if not confirm:
        raise AlicatValidationError(
            "nothing was restored: the settings of the instrument would be overwritten; repeat it "
            "with confirm=True"
        )
    present = await read_configuration(device)
    writers = _settings_of(device)
    changes = {
        name: value
        for name, value in wanted.settings.items()
        if name in writers and present.settings.get(name) != value
    }
    for name, value in changes.items():
        if name in present.settings and present.settings[name].keys() != value.keys():
            raise _misshapen(name)
    for name, value in changes.items():
        try:
            await writers[name].write(value)
        except AlicatError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise _misshapen(name) from error
    return tuple(
        difference
        for difference in differences(wanted, await read_configuration(device))
        if difference.before is not None
    )


def _misshapen(name: str) -> AlicatValidationError:
    return AlicatValidationError(
        f"the configuration's {name!r} is not what an instrument can be set to: save it again, or "
        "correct the file"
    )


@dataclass(frozen=True, slots=True)
class _Setting:
    read: Callable[[], Awaitable[Value]]
    write: Callable[[Value], Awaitable[object]]


def _settings_of(device: Device) -> dict[str, _Setting]:
    """The settings in the order in which they are written: units come before their values."""
    found: dict[str, _Setting] = {}
    for field in device.data_frame_format.fields:
        if field.statistic is not None and field.unit is not None:
            found[f"unit of {field.statistic.value}"] = _unit(device, field.statistic.code)
    if isinstance(device, FlowController | PressureController):
        found |= _settings_of_controller(device)
    found["gas"] = _gas(device)
    found["zero band"] = _zero_band(device)
    found["tare at power-up"] = _power_up_tare(device)
    for mode in StpNtpMode:
        found[f"{mode.name.lower()} pressure"] = _reference_pressure(device, mode)
        found[f"{mode.name.lower()} temperature"] = _reference_temperature(device, mode)
    for totalizer in TotalizerId:
        found[f"totalizer {totalizer.value}"] = _totalizer(device, totalizer)
    found["streaming interval"] = _streaming(device)
    for slot in range(4):
        found[f"user data {slot}"] = _user_data(device, slot)
    return found


def _settings_of_controller(device: FlowController | PressureController) -> dict[str, _Setting]:
    async def read_source() -> Value:
        return {"source": await device.setpoint_source()}

    async def read_variable() -> Value:
        return {"statistic": (await device.loop_control_variable()).variable.value}

    async def read_ramp() -> Value:
        ramp = await device.ramp_rate()
        return {"max_ramp": ramp.max_ramp, "time_unit": ramp.time_unit.value}

    async def read_ramp_options() -> Value:
        options = await device.ramp_options()
        return {
            "up": options.up,
            "down": options.down,
            "to_zero": options.to_zero,
            "at_power_up": options.at_power_up,
        }

    async def read_deadband() -> Value:
        return {"deadband": (await device.deadband_limit()).deadband}

    async def read_auto_tare() -> Value:
        state = await device.auto_tare()
        return {"enabled": state.enabled, "delay_s": state.delay_s if state.enabled else None}

    async def write_auto_tare(value: Value) -> object:
        return await device.auto_tare(value["enabled"], value["delay_s"])

    return {
        "controlled quantity": _Setting(
            read_variable,
            lambda value: device.loop_control_variable(LoopControlVariable(value["statistic"])),
        ),
        "setpoint source": _Setting(
            read_source, lambda value: device.setpoint_source(value["source"])
        ),
        "ramp rate": _Setting(
            read_ramp,
            lambda value: device.ramp_rate(value["max_ramp"], TimeUnit(value["time_unit"])),
        ),
        "ramp options": _Setting(read_ramp_options, lambda value: device.ramp_options(**value)),
        "deadband": _Setting(
            read_deadband, lambda value: device.deadband_limit(value["deadband"], save=True)
        ),
        "automatic tare": _Setting(read_auto_tare, write_auto_tare),
    }


def _unit(device: Device, statistic: int) -> _Setting:
    async def read() -> Value:
        setting = await device.engineering_units(statistic)
        return {"code": setting.unit_code, "label": setting.label}

    return _Setting(read, lambda value: device.engineering_units(statistic, value["code"]))


def _gas(device: Device) -> _Setting:
    async def read() -> Value:
        state = await device.gas()
        return {"code": state.code, "label": state.label}

    return _Setting(read, lambda value: device.gas(value["code"], save=True))


def _zero_band(device: Device) -> _Setting:
    async def read() -> Value:
        return {"percent": (await device.zero_band()).zero_band}

    return _Setting(read, lambda value: device.zero_band(value["percent"]))


def _power_up_tare(device: Device) -> _Setting:
    async def read() -> Value:
        return {"enabled": (await device.power_up_tare()).enabled}

    return _Setting(read, lambda value: device.power_up_tare(value["enabled"]))


def _reference_pressure(device: Device, mode: StpNtpMode) -> _Setting:
    async def read() -> Value:
        setting = await device.stp_ntp_pressure(mode)
        return {"pressure": setting.pressure, "unit_code": setting.unit_code}

    return _Setting(
        read, lambda value: device.stp_ntp_pressure(mode, value["pressure"], value["unit_code"])
    )


def _reference_temperature(device: Device, mode: StpNtpMode) -> _Setting:
    async def read() -> Value:
        setting = await device.stp_ntp_temperature(mode)
        return {"temperature": setting.temperature, "unit_code": setting.unit_code}

    return _Setting(
        read,
        lambda value: device.stp_ntp_temperature(mode, value["temperature"], value["unit_code"]),
    )


def _totalizer(device: Device, totalizer: TotalizerId) -> _Setting:
    async def read() -> Value:
        config = await device.totalizer_config(totalizer)
        return {
            "flow_statistic_code": config.flow_statistic_code,
            "mode": int(config.mode),
            "limit_mode": int(config.limit_mode),
            "digits": config.digits,
            "decimal_place": config.decimal_place,
        }

    async def write(value: Value) -> object:
        code = value["flow_statistic_code"]
        if code == TOTALIZER_DISABLED_CODE:
            return await device.totalizer_config(totalizer, flow_statistic_code=code)
        return await device.totalizer_config(
            totalizer,
            flow_statistic_code=code,
            mode=TotalizerMode(value["mode"]),
            limit_mode=TotalizerLimitMode(value["limit_mode"]),
            digits=value["digits"],
            decimal_place=value["decimal_place"],
        )

    return _Setting(read, write)


def _streaming(device: Device) -> _Setting:
    command = Commands.STREAMING_RATE

    async def read() -> Value:
        return {"ms": (await device.execute(command, StreamingRateRequest())).rate_ms}

    return _Setting(read, lambda value: device.execute(command, StreamingRateRequest(value["ms"])))


def _user_data(device: Device, slot: int) -> _Setting:
    async def read() -> Value:
        return {"text": (await device.user_data(slot)).value}

    async def write(value: Value) -> None:
        # There is no command that empties a slot: it stays as it is, and is reported.
        if value["text"]:
            await device.user_data(slot, value["text"])

    return _Setting(read, write)
