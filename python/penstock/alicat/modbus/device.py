"""Instruments over Modbus, with the methods of those over the text protocol.

Registers hold numbers and, except for some families, neither units nor a serial number. So the
units are stated when the instrument is opened, and a change at the panel is not noticed.

A lost line is reopened only if the instrument can be recognised: by its serial number, or because
the caller has stated that no other instrument can answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from penstock.alicat._bus.replies import Exchange
from penstock.alicat._bus.waiting import ANYIO
from penstock.alicat._instrument.kinds import Capability
from penstock.alicat._instrument.reading import FieldSchema, Reading
from penstock.alicat._instrument.results import (
    DeviceResult,
    DisplayLockResult,
    TareResult,
    TotalizerResetResult,
    poll_in_turn,
)
from penstock.alicat.commands.gas import MOST_GASES, GasMix, GasState, mix_number, mix_parts
from penstock.alicat.errors import (
    AlicatCommandRejectedError,
    AlicatIdentityError,
    AlicatUnsupportedCommandError,
    AlicatValidationError,
    ErrorContext,
    UnknownGasError,
)
from penstock.alicat.modbus.client import ModbusClient
from penstock.alicat.modbus.protocol import ReadRegisters, Request, WriteRegisters
from penstock.alicat.modbus.registers import (
    RESULTS,
    RegisterMap,
    SpecialCommand,
    decode_status,
)
from penstock.alicat.registry import Gas, Statistic
from penstock.alicat.registry.units import clean_unit_label

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = [
    "ModbusFlowMeter",
    "ModbusSource",
]


#: The names that data frames give these quantities.
_NAMES: Final = MappingProxyType(
    {
        Statistic.ABS_PRESS: "Abs_Press",
        Statistic.TEMP_STREAM: "Flow_Temp",
        Statistic.VOL_FLOW: "Volu_Flow",
        Statistic.MASS_FLOW: "Mass_Flow",
        Statistic.GAUGE_PRESS: "Gauge_Press",
        Statistic.DIFF_PRESS: "Diff_Press",
        Statistic.MASS_FLOW_SETPT: "Mass_Flow_Setpt",
        Statistic.TOT_MASS: "Tot_Mass",
        Statistic.VALVE_DRIVE: "Valve_Drive",
    }
)
_GAS_FIELD: Final = "Gas"
_TARE_PRESSURE, _TARE_ABSOLUTE, _TARE_FLOW = 0, 1, 2
_SERIAL_REGISTERS = 6
#: The value that triggers the action of a register.
_TRIGGER = 0xAA55
_LAST_NUMBER = 247


class ModbusFlowMeter:
    """A flow meter over Modbus. Made by :func:`open_modbus_device`.

    Use it from one event loop only. A cancelled call releases the line. As after a timeout, it is
    then unknown whether the instrument has executed the request.

    Every method that sends a request may raise the errors of :meth:`ModbusClient.execute`. After a
    command, the device reads the command's result: :class:`AlicatCommandRejectedError` names the
    reason if the instrument did not execute the command.

    Args:
        client: The client of the line or server.
        unit: The instrument's Modbus unit number, 1 to 247.
        registers: The register map.
        units: The labels of the units that the instrument is set to, by quantity.
        capabilities: Hardware that the instrument has.
        owns_client: Whether the client is closed with the device.
        assume_same_instrument: Whether no other instrument can answer under this number after the
            line was reopened.
    """

    def __init__(
        self,
        client: ModbusClient,
        *,
        unit: int,
        registers: RegisterMap,
        units: Mapping[Statistic | str, str] | None = None,
        capabilities: Capability = Capability.NONE,
        owns_client: bool = False,
        assume_same_instrument: bool = False,
    ) -> None:
        self._assume_same = assume_same_instrument
        self._serial: str | None = None
        self._generation = client.generation
        self._client = client
        self._unit = unit
        self._registers = registers
        self._capabilities = capabilities
        self.owns_client = owns_client
        """Whether the client is closed with the device."""
        stated = {Statistic.coerce(key): label for key, label in (units or {}).items()}
        there = set(registers.quantities)
        if registers.setpoint is not None:
            there.add(registers.setpoint_statistic)
        missing = [statistic for statistic in stated if statistic not in there]
        if missing:
            raise AlicatValidationError(
                f"a unit is stated for {missing[0].value}, which has no register in this map"
            )
        stated |= registers.units
        self._labels = MappingProxyType(
            {statistic: clean_unit_label(label) for statistic, label in stated.items()}
        )
        ordered = [statistic for statistic in _NAMES if statistic in registers.quantities]
        self._fields = tuple(
            (_NAMES[s], registers.quantities[s] - registers.first, *registers.encoding(s))
            for s in ordered
        )
        self._units = MappingProxyType(
            {_NAMES[s]: label for s, label in self._labels.items() if s in registers.quantities}
        )
        names = {s: _NAMES[s] for s in ordered}
        if registers.gas is not None:
            names[Statistic.FLUID_NAME] = _GAS_FIELD
        self._names_by_statistic = MappingProxyType(names)
        self._poll_request = ReadRegisters(registers.address(registers.first), registers.count)

    @property
    def client(self) -> ModbusClient:
        """The client of its line or server."""
        return self._client

    @property
    def unit_id(self) -> str:
        """Its Modbus unit number, as text."""
        return str(self._unit)

    @property
    def registers(self) -> RegisterMap:
        """The register map, with its source."""
        return self._registers

    @property
    def serial(self) -> str | None:
        """The serial number; ``None`` if no register holds it."""
        return self._serial

    def facts(self) -> Mapping[str, str]:
        """What identifies it: number, serial number, and the source of its register map."""
        facts = {"unit_id": self.unit_id, "registers": self._registers.provenance}
        return facts if self._serial is None else facts | {"serial": self._serial}

    def field_schema(self) -> tuple[FieldSchema, ...]:
        """Name, kind and unit of every field of its readings, in order, before the first."""
        fields = [FieldSchema(name, "float", self._units.get(name)) for name, *_ in self._fields]
        if self._registers.gas is not None:
            fields.append(FieldSchema(_GAS_FIELD, "text", None))
        return tuple(fields)

    async def identify(self) -> None:
        """Read the serial number, if a register holds it; the same one is expected from then on."""
        if self._registers.serial is not None:
            self._generation = self._client.generation
            self._serial = await self._read_serial()

    async def poll(self) -> Reading:
        """Read all measured values, the gas and the status by one request.

        ``units`` of the reading has those that were stated. A gas that :class:`Gas` does not list,
        such as a mix, is its number as text.
        """
        return self._reading_of(await self._execute(self._poll_request, poll=True))

    async def gas(self, gas: Gas | str | int | None = None) -> GasState:
        """Read the gas that the instrument is set to, or select another.

        ``gas`` is a name, or the number of a mix.

        Raises:
            UnknownGasError: there is no gas of this name.
        """
        register = self._registers.gas
        if register is None:
            raise self._undocumented("a register of the gas")
        if gas is not None:
            await self._choose_gas(register, gas)
        (held,) = await self._read(register, 1)
        known = self._gas_of(held)
        return GasState(self.unit_id, held, known, self._gas_label(held), "")

    async def create_mix(self, number: int, gases: Mapping[Gas | str | int, float]) -> GasMix:
        """Store a mix of two to five gases, in percent by volume, under ``number`` (236 to 255).

        A mix with that number is replaced. Select it with ``gas(number)``. Over Modbus, a mix gets
        no name.

        Raises:
            AlicatValidationError: number, gases or percentages are not possible; nothing was sent.
        """
        mix_number(number)
        self._require_command(SpecialCommand.CREATE_MIX)
        written: list[int] = []
        for code, percentage in mix_parts(gases).items():
            written += code, round(100 * percentage)
        written += [0] * (2 * MOST_GASES - len(written))
        await self._write(self._registers.mix, tuple(written))
        await self._command(SpecialCommand.CREATE_MIX, number, success=number)
        return GasMix(self.unit_id, number)

    async def delete_mix(self, number: int, *, confirm: bool = False) -> GasMix:
        """Delete a mix.

        Raises:
            AlicatValidationError: ``confirm`` is not true, or there is no such number; nothing was
                sent.
        """
        mix_number(number)
        self._require(confirm, "the mix is lost")
        await self._command(SpecialCommand.DELETE_MIX, number)
        return GasMix(self.unit_id, number)

    async def tare_flow(self) -> TareResult:
        """Tare: the present flow becomes zero. The caller makes sure that nothing flows."""
        if self._registers.tare is not None:
            await self._write(self._registers.tare, (_TRIGGER,))
            return TareResult(await self.poll())
        return await self._tare(_TARE_FLOW)

    async def tare_gauge_pressure(self) -> TareResult:
        """Tare: the present gauge pressure becomes zero.

        The caller makes sure that the line is vented.
        """
        return await self._tare(_TARE_PRESSURE)

    async def tare_absolute_pressure(self) -> TareResult:
        """Set the absolute pressure to the barometer's.

        The caller makes sure that the line is vented.
        """
        return await self._tare(_TARE_ABSOLUTE)

    async def totalizer_reset(self, *, confirm: bool = False) -> TotalizerResetResult:
        """Set the total to zero.

        Raises:
            AlicatValidationError: ``confirm`` is not true; nothing was sent.
        """
        self._require(confirm, "the total is lost")
        if self._registers.reset is not None:
            await self._write(self._registers.reset, (_TRIGGER,))
            return TotalizerResetResult(await self.poll())
        await self._command(SpecialCommand.RESET_TOTALIZER, 0)
        return TotalizerResetResult(await self.poll())

    async def lock_display(self) -> DisplayLockResult:
        """Lock the buttons of the panel. The status registers do not show it."""
        await self._command(SpecialCommand.DISPLAY_LOCK, 1)
        return DisplayLockResult(await self.poll())

    async def unlock_display(self) -> DisplayLockResult:
        """Unlock the buttons of the panel."""
        await self._command(SpecialCommand.DISPLAY_LOCK, 0)
        return DisplayLockResult(await self.poll())

    async def change_number(self, number: int, *, confirm: bool = False) -> None:
        """Give it another Modbus number, which is used from then on.

        Raises:
            AlicatValidationError: ``confirm`` is not true, or it is not a number from 1 to 247;
                nothing was sent.
        """
        self._require(confirm, "it will answer under another number")
        if not 1 <= number <= _LAST_NUMBER:
            raise AlicatValidationError(
                f"{number!r} is not a Modbus unit number: it is 1 to {_LAST_NUMBER}"
            )
        self._require_command(SpecialCommand.CHANGE_NUMBER)
        # The result cannot be read under the old number any more.
        await self._write(self._command_register(), (SpecialCommand.CHANGE_NUMBER.value, number))
        self._unit = number
        await self.poll()

    async def close(self) -> None:
        """Close the device, and the port if it was opened for it."""
        if self.owns_client:
            await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _read(self, register: int, count: int) -> tuple[int, ...]:
        request = ReadRegisters(self._registers.address(register), count)
        return (await self._execute(request)).value

    async def _write(self, register: int, values: tuple[int, ...]) -> None:
        request = WriteRegisters(self._registers.address(register), values)
        await self._execute(request)

    async def _execute(self, request: Request, *, poll: bool = False) -> Exchange[tuple[int, ...]]:
        """Execute a request on a line on which the instrument is known to be the same."""
        client = self._client
        if not client.is_open and client.can_reopen and self._can_be_known:
            await client.reopen()
        if client.generation != self._generation:
            await self._prove_identity()
        return await client.execute(self._unit, request, poll=poll, generation=self._generation)

    @property
    def _can_be_known(self) -> bool:
        return self._assume_same or self._serial is not None

    async def _prove_identity(self) -> None:
        generation = self._client.generation
        if not self._can_be_known:
            raise AlicatIdentityError(
                f"the line {self._client.label} was opened again, and no register of unit "
                f"{self._unit} shows whether the same instrument answers: open the device again, "
                "or with assume_same_instrument=True if no other instrument can be there",
                context=ErrorContext(unit_id=self.unit_id, port=self._client.label),
            )
        if self._serial is not None:
            found = await self._read_serial()
            if found != self._serial:
                raise AlicatIdentityError(
                    f"unit {self._unit} on {self._client.label} now has the serial number "
                    f"{found!r}, and was {self._serial!r} when it was opened: open the device "
                    "again",
                    context=ErrorContext(unit_id=self.unit_id, port=self._client.label),
                )
        self._generation = generation
        self._client.line_is_good()

    async def _read_serial(self) -> str:
        register = self._registers.serial
        assert register is not None  # asked only where there is one
        request = ReadRegisters(self._registers.address(register), _SERIAL_REGISTERS)
        client = self._client
        held = await client.execute(self._unit, request, generation=client.generation)
        text = b"".join(word.to_bytes(2, "big") for word in held.value)
        return text.rstrip(b"\0 ").decode("ascii", "replace")

    def _undocumented(self, what: str) -> AlicatUnsupportedCommandError:
        return AlicatUnsupportedCommandError(
            f"nothing was sent to unit {self._unit}: {what} is not documented for it "
            f"({self._registers.provenance}); use its text protocol",
            context=ErrorContext(unit_id=self.unit_id, port=self._client.label),
        )

    def _require_command(self, command: SpecialCommand) -> None:
        if command not in self._registers.commands:
            raise self._undocumented(f"the command {command.value} ({command.name})")

    def _command_register(self) -> int:
        register = self._registers.command
        if register is None:
            raise self._undocumented("a command register")
        return register

    async def _choose_gas(self, register: int, gas: Gas | str | int) -> None:
        own = self._registers.gases
        if own is None:
            code = gas if isinstance(gas, int) else Gas.coerce(gas).code
            await self._command(SpecialCommand.CHANGE_GAS, code)
            return
        wanted = gas if isinstance(gas, int) else Gas.coerce(gas)
        if wanted not in (own if isinstance(wanted, Gas) else range(len(own))):
            raise AlicatValidationError(
                f"unit {self._unit} has no gas {gas!r}: it has {', '.join(g.value for g in own)}"
            )
        number = own.index(wanted) if isinstance(wanted, Gas) else wanted
        await self._write(register, (number,))

    def _gas_of(self, code: int) -> Gas | None:
        own = self._registers.gases
        if own is not None:
            return own[code] if code < len(own) else None
        return _gas_of(code)

    def _gas_label(self, code: int) -> str:
        known = self._gas_of(code)
        return str(code) if known is None else known.value

    async def _command(self, command: SpecialCommand, argument: int, *, success: int = 0) -> None:
        """Execute a special command, and ask whether its result is ``success``."""
        self._require_command(command)
        register = self._command_register()
        await self._write(register, (command.value, argument))
        executed, result = await self._read(register, 2)
        if executed == command.value and result == success:
            return
        raise self._failure(command, argument, executed, result)

    def _failure(
        self, command: SpecialCommand, argument: int, executed: int, result: int
    ) -> AlicatCommandRejectedError:
        why = (
            f"another command, {executed}, was executed meanwhile"
            if executed != command.value
            else RESULTS.get(result, "the manual does not list this result")
        )
        return AlicatCommandRejectedError(
            f"unit {self._unit} on {self._client.label} gave result {result} to command "
            f"{command.value} ({command.name}) with argument {argument}: {why}",
            context=ErrorContext(
                command_name=command.name, unit_id=self.unit_id, port=self._client.label
            ),
        )

    async def _tare(self, what: int) -> TareResult:
        await self._command(SpecialCommand.TARE, what)
        return TareResult(await self.poll())

    def _require(self, confirm: bool, loss: str) -> None:
        if not confirm:
            raise AlicatValidationError(
                f"nothing was sent to unit {self._unit}: {loss}; repeat it with confirm=True",
                context=ErrorContext(unit_id=self.unit_id, port=self._client.label),
            )

    def _reading_of(self, exchange: Exchange[tuple[int, ...]]) -> Reading:
        held, requested_ns, requested_unix_ns, received_ns, received_unix_ns = exchange
        registers = self._registers
        values: dict[str, float | str] = {
            name: encoding.decode(held[offset : offset + encoding.count]) * worth
            for name, offset, encoding, worth in self._fields
        }
        if registers.gas is not None:
            values[_GAS_FIELD] = self._gas_label(held[registers.gas - registers.first])
        at = registers.status - registers.first
        status, unknown = decode_status(
            held[at : at + registers.status_count], registers.status_bits
        )
        return Reading(
            self.unit_id,
            MappingProxyType(values),
            self._units,
            status,
            requested_ns,
            requested_unix_ns,
            received_ns,
            received_unix_ns,
            unknown,
            self._names_by_statistic,
        )


def _gas_of(code: int) -> Gas | None:
    try:
        return Gas.by_code(code)
    except UnknownGasError:
        return None


class ModbusSource:
    """Polls named Modbus devices: those of one client in turn, several clients side by side.

    A source for :func:`penstock.record.record`. It does not own the devices.

    Args:
        devices: The open devices by name.
        source_id: Identifies this source in a recording.

    Raises:
        AlicatValidationError: there is no device.
    """

    def __init__(
        self, devices: Mapping[str, ModbusFlowMeter], *, source_id: str = "modbus"
    ) -> None:
        if not devices:
            raise AlicatValidationError("a source needs at least one device")
        self._devices = dict(devices)
        self._source_id = source_id

    @property
    def source_id(self) -> str:
        """Identifies this source in a recording."""
        return self._source_id

    @property
    def names(self) -> tuple[str, ...]:
        """The devices' names, in the order in which they were given."""
        return tuple(self._devices)

    @property
    def revision(self) -> int:
        """Always 0: neither fields nor facts change."""
        return 0

    def field_schemas(self) -> Mapping[str, tuple[FieldSchema, ...]]:
        """The fields of every device's readings, by name."""
        return {name: device.field_schema() for name, device in self._devices.items()}

    def device_facts(self, name: str) -> Mapping[str, str]:
        """What identifies a device: see :meth:`ModbusFlowMeter.facts`.

        Raises:
            AlicatValidationError: there is no such device.
        """
        return self._device(name).facts()

    def poll_groups(self) -> tuple[tuple[str, ...], ...]:
        """The names, grouped by the line that they share; groups may be polled side by side."""
        return tuple(tuple(name for name, _ in group) for group in self._groups(self.names))

    async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, DeviceResult[Reading]]:
        """Poll the named devices, or all. A failure is a result with its error.

        Raises:
            AlicatValidationError: there is no such device; nothing was sent.
        """
        wanted = self.names if names is None else tuple(dict.fromkeys(names))
        results: dict[str, DeviceResult[Reading]] = {}
        groups = self._groups(wanted)
        if len(groups) == 1:
            await poll_in_turn(groups[0], results)
        else:
            await ANYIO.together([partial(poll_in_turn, group, results) for group in groups])
        return {name: results[name] for name in wanted}

    def _device(self, name: str) -> ModbusFlowMeter:
        device = self._devices.get(name)
        if device is None:
            raise AlicatValidationError(
                f"no device is named {name!r}; the devices are {', '.join(self._devices)}"
            )
        return device

    def _groups(self, names: Sequence[str]) -> list[list[tuple[str, ModbusFlowMeter]]]:
        groups: dict[ModbusClient, list[tuple[str, ModbusFlowMeter]]] = {}
        for name in names:
            device = self._device(name)
            groups.setdefault(device.client, []).append((name, device))
        return list(groups.values())
