"""Identifies the instrument that answers on a line, and changes its unit id or baud rate.

An instrument is identified when it is opened, when its line is reopened after a loss, and when it
has another unit id or baud rate.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from penstock.alicat._bus.client import AlicatProtocolClient
from penstock.alicat._bus.replies import check_unit_id, refuse_line
from penstock.alicat._instrument.data_frame import DataFrameFormat
from penstock.alicat._instrument.events import EventKind
from penstock.alicat._instrument.identity import (
    DeviceInfo,
    ManufacturingInfo,
    capabilities_of_columns,
    parse_basis_serial,
    parse_basis_version,
    parse_manufacturing_info,
    parse_version_line,
)
from penstock.alicat._instrument.kinds import (
    Capability,
    DeviceKind,
    FirmwareFamily,
    FirmwareVersion,
    Medium,
    kind_and_media_of_model,
)
from penstock.alicat._session.data_format import FormatInForce, read_data_frame_format
from penstock.alicat.commands.system import BAUD_RATE, MANUFACTURING_INFO, BaudRateRequest
from penstock.alicat.errors import (
    AlicatCommandRejectedError,
    AlicatConfigurationError,
    AlicatConnectionError,
    AlicatError,
    AlicatIdentityError,
    AlicatParseError,
    AlicatProtocolError,
    AlicatStreamingModeError,
    AlicatTimeoutError,
    AlicatUnitIdMismatchError,
    AlicatValidationError,
    ErrorContext,
)
from penstock.alicat.registry import Statistic

if TYPE_CHECKING:
    from penstock.alicat._session.session import Session


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Identity:
    """What an instrument reports about itself."""

    software: str
    firmware: FirmwareVersion
    built: date | None
    made: ManufacturingInfo | None

    @property
    def serial(self) -> str | None:
        """The serial number, if it reports one."""
        return self.made.serial if self.made else None


async def identify(
    client: AlicatProtocolClient,
    unit_id: str,
    *,
    timeout: float,
    recover_from_stream: bool = True,
    generation: int | None = None,
) -> Identity:
    """Ask a unit for its firmware and its manufacturing table, and register its proof.

    ``recover_from_stream`` stops an instrument that turns out to be streaming; it then gets the
    letter ``unit_id``. ``generation`` is that of the client that the questions are meant for.

    Raises:
        AlicatTimeoutError: no unit answers.
        AlicatUnitIdMismatchError: only another unit answers.
        AlicatStreamingModeError: an instrument streams and does not stop.
        AlicatProtocolError: the answer is not understood.
        AlicatConnectionError: the port is lost or closed.
    """
    asking = _Asking(client, unit_id, timeout, generation)
    try:
        return await asking.identity()
    except AlicatStreamingModeError:
        if not recover_from_stream:
            raise
    # Only on evidence: the command gives the letter to any instrument that streams. On a shared
    # bus, two units could then have the same letter.
    await client.stop_stream(unit_id)
    try:
        return await asking.identity()
    except (AlicatStreamingModeError, AlicatTimeoutError):
        await client.stop_stream(unit_id, old_firmware=True)
    return await asking.identity()


async def is_anybody_there(
    client: AlicatProtocolClient, unit_id: str, *, timeout: float, generation: int | None = None
) -> bool:
    """Whether any instrument answers when it is polled as ``unit_id``."""

    def any_line(line: bytes) -> None:
        if line[:1] != unit_id.encode():
            refuse_line(line, unit_id, wanted="any answer")

    try:
        await client.exchange(
            f"{unit_id}\r".encode(), any_line, timeout=timeout, generation=generation
        )
    except AlicatTimeoutError:
        return False
    except AlicatConnectionError:
        raise
    except AlicatProtocolError:
        return True
    return True


def describe(
    unit_id: str,
    identity: Identity,
    data_frame_format: DataFrameFormat | None = None,
    *,
    model_hint: str | None = None,
    capabilities: Capability = Capability.NONE,
    assume_media: Medium | None = None,
) -> DeviceInfo:
    """Combine what an instrument has reported with what its user states."""
    made = identity.made
    if identity.firmware.family is FirmwareFamily.BASIS and assume_media is None:
        assume_media = Medium.GAS
    model = (made.model if made else None) or model_hint
    kind, media = kind_and_media_of_model(model)
    if data_frame_format is not None and kind is DeviceKind.UNKNOWN:
        kind = _kind_of_columns(data_frame_format)
    capabilities, probe_report = capabilities_of_columns(data_frame_format, capabilities)
    return DeviceInfo(
        unit_id=unit_id,
        manufacturer=made.manufacturer if made else None,
        model=model,
        serial=made.serial if made else None,
        manufactured=made.manufactured if made else None,
        calibrated=made.calibrated if made else None,
        calibrated_by=made.calibrated_by if made else None,
        software=identity.software,
        firmware=identity.firmware,
        firmware_date=identity.built,
        kind=kind,
        media=media if assume_media is None else assume_media,
        capabilities=capabilities,
        probe_report=probe_report,
    )


async def identify_again(
    client: AlicatProtocolClient,
    info: DeviceInfo,
    *,
    timeout: float,
    known: FormatInForce,
    context: ErrorContext,
) -> tuple[int, FormatInForce]:
    """Prove that the instrument of ``info`` answers, and read its data frame format.

    A lost line is reopened first. The serial numbers decide whether it is the same instrument; if
    one of the two has none, firmware and model must be the same.

    Returns:
        The client's generation on which it answered, and its format.

    Raises:
        AlicatIdentityError: another instrument answers.
        AlicatError: as for :func:`identify`; or the line cannot be opened yet.
    """
    if not client.is_open:
        await client.reopen()
    generation = client.generation
    identity = await identify(client, info.unit_id, timeout=timeout, generation=generation)
    _check_same(info, identity, client.label, context)
    found = await read_data_frame_format(
        client,
        info.unit_id,
        timeout=timeout,
        firmware=identity.firmware,
        generation=generation,
        known=known,
    )
    return generation, found


def _check_same(info: DeviceInfo, identity: Identity, port: str, context: ErrorContext) -> None:
    if info.serial is not None and identity.serial is not None:
        if identity.serial == info.serial:
            return
        told, known = f"serial number {identity.serial}", info.serial
    elif identity.software == info.software and (
        identity.made is None or identity.made.model in (None, info.model)
    ):
        return
    else:
        told, known = f"firmware {identity.software}", info.software
    raise AlicatIdentityError(
        f"another instrument answers as unit {info.unit_id} on {port}: {told}, not {known}; "
        "connect the one that was opened, or close the device and open it again",
        context=context,
    )


@dataclass(frozen=True, slots=True)
class _Asking:
    client: AlicatProtocolClient
    unit_id: str
    timeout: float
    generation: int | None

    async def identity(self) -> Identity:
        version = await self.version()
        try:
            made = await self.manufacturing(silent_before=version is None)
        except AlicatTimeoutError:
            basis = await self.basis()
            if basis is None:
                raise
            return basis
        if version is None and made is None:
            basis = await self.basis()
            if basis is not None:
                return basis
        if version is None:
            # GP does not know VE, and 8v17 was seen to miss one. The table tells which it is.
            software = (made.software if made else None) or "GP"
            firmware = FirmwareVersion.parse(software)
            if firmware.family is FirmwareFamily.GP:
                return Identity(software, firmware, None, made)
            version = await self.version()
            if version is None:
                return Identity(software, firmware, None, made)
        return Identity(*version, made)

    async def version(self) -> tuple[str, FirmwareVersion, date | None] | None:
        unit_id = self.unit_id
        command = f"{unit_id}VE\r".encode()

        def decode(line: bytes) -> tuple[bytes, tuple[str, FirmwareVersion, date | None]]:
            return line, parse_version_line(line, unit_id)

        answer = await self.or_none(command, decode)
        if answer is None:
            return None
        line, version = answer
        self.client.register_proof(unit_id, command, line)
        return version

    async def basis(self) -> Identity | None:
        """Identify a BASIS instrument, which has neither table."""
        unit_id = self.unit_id
        command = f"{unit_id}SN\r".encode()
        answer = await self.or_none(command, lambda line: (line, parse_basis_serial(line, unit_id)))
        if answer is None:
            return None
        line, serial = answer
        self.client.register_proof(unit_id, command, line)
        firmware = await self.or_none(
            f"{unit_id}VE\r".encode(), lambda line: parse_basis_version(line, unit_id)
        )
        if firmware is None:
            firmware = FirmwareVersion(FirmwareFamily.BASIS, 0, 0, "of unknown version")
        made = ManufacturingInfo(
            unit_id, MappingProxyType({}), manufacturer="ALICAT SCIENTIFIC", serial=serial
        )
        return Identity(firmware.raw, firmware, None, made)

    async def or_none(self, command: bytes, decode: Callable[[bytes], T]) -> T | None:
        """The answer, or ``None`` if the instrument is silent or does not take the command."""
        try:
            exchange = await self.client.exchange(
                command,
                decode,
                timeout=self.timeout,
                unmistakable=True,
                generation=self.generation,
            )
        except (AlicatTimeoutError, AlicatCommandRejectedError, AlicatParseError):
            return None
        return exchange.value

    async def manufacturing(self, *, silent_before: bool) -> ManufacturingInfo | None:
        client, unit_id, timeout = self.client, self.unit_id, self.timeout
        table = MANUFACTURING_INFO
        command = f"{unit_id}{table.token}\r".encode()
        try:
            rows = await client.query_lines(
                command,
                table.is_row,
                table.is_last_row,
                wanted=table.wanted,
                first_timeout=timeout if silent_before else 2 * timeout,
                generation=self.generation,
            )
        except AlicatTimeoutError as error:
            # A refusal that arrived meanwhile may belong to the previous question. It is an answer
            # too.
            if silent_before and not isinstance(error.__cause__, AlicatCommandRejectedError):
                raise _nobody_there(client, unit_id, timeout) from error
            return None
        except AlicatStreamingModeError:
            raise
        except AlicatProtocolError as error:
            if silent_before and not _is_alive(error):
                raise
            return None
        if silent_before and table.is_last_row(rows[-1]):
            client.register_proof(unit_id, command, rows[-1])
        return parse_manufacturing_info(rows, unit_id)


def _is_alive(error: AlicatProtocolError) -> bool:
    """Whether the unit itself has answered, even if it only rejected the command."""
    return not isinstance(error, AlicatUnitIdMismatchError)


def _nobody_there(client: AlicatProtocolClient, unit_id: str, timeout: float) -> AlicatTimeoutError:
    baudrate = client.transport.baudrate
    at = f" at {baudrate} baud" if baudrate else ""
    return AlicatTimeoutError(
        f"no instrument answers as unit {unit_id} on {client.label}{at} ({2 * timeout:g} s): check "
        "that it is powered and connected to this port, and that the "
        f"{'unit id and the baud rate' if baudrate else 'unit id'} in its communication menu "
        f"{'are these' if baudrate else 'is this'}",
        context=ErrorContext(
            command_name="identify", unit_id=unit_id, port=client.label, baudrate=baudrate
        ),
    )


def _kind_of_columns(data_frame_format: DataFrameFormat) -> DeviceKind:
    statistics = {field.statistic for field in data_frame_format.fields}
    controls = data_frame_format.setpoint_field is not None
    if statistics & {Statistic.MASS_FLOW, Statistic.VOL_FLOW}:
        return DeviceKind.FLOW_CONTROLLER if controls else DeviceKind.FLOW_METER
    if statistics & {Statistic.ABS_PRESS, Statistic.GAUGE_PRESS, Statistic.DIFF_PRESS}:
        return DeviceKind.PRESSURE_CONTROLLER if controls else DeviceKind.PRESSURE_METER
    return DeviceKind.UNKNOWN


async def change_unit_id(session: Session, new_unit_id: str, *, confirm: bool = False) -> None:
    """Give an instrument another letter on its bus.

    First makes sure that no instrument has that letter. Afterwards the instrument must identify
    itself under it by its serial number. A task that is cancelled after the instrument was told
    waits for that before it ends.

    Raises:
        InvalidUnitIdError: it is not one letter A to Z.
        AlicatValidationError: ``confirm`` is not true, or another instrument has the letter;
            nothing was sent.
        AlicatError: the instrument did not answer under its new letter. It is then unknown which
            one it has; the session continues with the old one.
    """
    new = check_unit_id(new_unit_id)
    old, client = session.unit_id, session.client
    if not confirm:
        raise AlicatValidationError(
            f"unit {old} was not renamed: two instruments with the same letter cannot be "
            "distinguished; "
            "repeat it with confirm=True",
            context=session.error_context(),
        )
    if new == old:
        return
    generation = await session.ensure_current()
    if await is_anybody_there(client, new, timeout=session.timeout, generation=generation):
        raise AlicatValidationError(
            f"unit {old} was not renamed: an instrument answers as unit {new} already; choose "
            "another letter",
            context=session.error_context(),
        )
    await client.waiting.checkpoint_if_cancelled()
    # To the end: once it was told, only its answer tells which letter it has.
    await client.waiting.finish(lambda: _rename(session, new, generation))


async def change_baud_rate(session: Session, baudrate: int, *, confirm: bool = False) -> None:
    """Change the baud rate of an instrument, and then of its port.

    Other instruments on the port cannot be asked until they follow. If the instrument does not
    answer at the new rate, the old one is tried again. A task that is cancelled after the
    instrument was told waits for that first.

    Raises:
        AlicatValidationError: instruments do not have this rate, or ``confirm`` is not true;
            nothing was sent.
        AlicatConfigurationError: the port cannot follow, because the device was not opened by its
            path; nothing was sent.
        AlicatFirmwareError: its firmware cannot change it; nothing was sent.
        AlicatCommandRejectedError: it keeps the old rate, and so does the port.
        AlicatConnectionError: it answers at neither rate, or the port cannot be opened.
    """
    client = session.client
    old = client.transport.baudrate
    if old is None or not client.can_change_baudrate:
        raise AlicatConfigurationError(
            f"the baud rate of {client.label} cannot be changed: open the device by the path of "
            "its port",
            context=session.error_context(BAUD_RATE),
        )
    await client.waiting.checkpoint_if_cancelled()
    # To the end: once it was told, only its answer tells which rate it has.
    await client.waiting.finish(
        lambda: _change_rate(session, old, BaudRateRequest(baudrate, confirm))
    )


async def _rename(session: Session, new: str, generation: int) -> None:
    old = session.unit_id
    await session.client.rename(old, new, generation=generation)
    try:
        await session.identify_at(unit_id=new)
    except BaseException:
        with suppress(AlicatError):
            await session.identify_at(unit_id=old)
        raise
    session.tell(EventKind.SETTING, f"its unit id was {old} and is {new}")


async def _change_rate(session: Session, old: int, request: BaudRateRequest) -> None:
    place = f"unit {session.unit_id} on {session.client.label}"
    # Some instruments answer at the new rate already, so that no answer is heard.
    with suppress(AlicatTimeoutError):
        await session.execute(BAUD_RATE, request)
    try:
        await session.identify_at(baudrate=request.baudrate)
    except AlicatError as error:
        try:
            await session.identify_at(baudrate=old)
        except AlicatError as second:
            raise AlicatConnectionError(
                f"{place} was set to {request.baudrate} baud, but answers neither at that rate "
                "nor at "
                f"{old}: turn it off and on, and check its communication menu",
                context=session.error_context(BAUD_RATE),
            ) from second
        raise AlicatCommandRejectedError(
            f"{place} still uses {old} baud", context=session.error_context(BAUD_RATE)
        ) from error
    session.tell(EventKind.SETTING, f"its baud rate was {old} and is {request.baudrate}")
