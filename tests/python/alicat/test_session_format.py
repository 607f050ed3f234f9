"""The format of the data frame is read again when frames no longer fit; letterless answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count

import anyio
import pytest

from penstock.alicat import (
    AlicatConfig,
    AlicatError,
    AlicatParseError,
    AlicatTimeoutError,
    Device,
    EventKind,
    Statistic,
    open_device,
)

from .captures import FORMAT_10V20
from .opened import TIMEOUT, opened
from .scripted_bus import controller, show_in_slpm

pytestmark = pytest.mark.anyio


async def beside_a_refresh(
    device: Device, cancelled_by: anyio.CancelScope, call: Callable[[], Awaitable[object]]
) -> None:
    """Call while another task, which ``cancelled_by`` can end, reads the format."""
    began = anyio.Event()

    async def read_the_format() -> None:
        began.set()
        with cancelled_by:
            await device.refresh_data_frame_format()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_the_format)
        await began.wait()
        await call()


class TestFormatThatIsReadAgain:
    """Table and frame have no checksum, and somebody may be at the panel while they are read."""

    IN_SLPM = b"A +014.62 +021.89 +00.000 +00.100 +00.100     N2"

    @staticmethod
    def table_in_slpm() -> list[bytes]:
        return [row.replace(b"7/2 012 02 SCCM", b"7/3 007 02 SLPM") for row in FORMAT_10V20]

    async def test_damaged_table_is_not_believed(self) -> None:
        unit = controller()
        device, bus, events = await opened(unit)
        unit.replies[b""] = self.IN_SLPM
        unit.replies[b"??D*"] = self.table_in_slpm()
        with pytest.raises(AlicatError, match="data frame"):
            await device.poll()
        bus.let_pass_next()
        bus.change_next(lambda reply: reply.replace(b"Mass Flow ", b"Mass Vlow "))
        with pytest.raises(AlicatError, match="data frame"):
            await device.poll()
        reading = await device.poll()
        assert (reading.values["Mass_Flow"], reading.units["Mass_Flow"]) == (0.1, "SLPM")
        assert [event.kind for event in events] == [EventKind.FORMAT_CHANGED]

    async def test_unit_that_changes_between_table_and_frame_is_noticed(self) -> None:
        unit = controller()
        device, _, _ = await opened(unit)
        tables = [FORMAT_10V20, self.table_in_slpm()]

        def table(command: bytes) -> list[bytes]:
            unit.replies[b""] = self.IN_SLPM
            return tables.pop(0) if len(tables) > 1 else tables[0]

        unit.replies[b"??D*"] = table
        await device.refresh_data_frame_format()
        reading = await device.poll()
        assert (reading.values["Mass_Flow"], reading.units["Mass_Flow"]) == (0.1, "SLPM")

    async def test_unit_that_changes_while_the_instrument_is_opened_is_noticed(self) -> None:
        unit = controller()
        tables = [FORMAT_10V20, self.table_in_slpm()]

        def table(command: bytes) -> list[bytes]:
            unit.replies[b""] = self.IN_SLPM
            return tables.pop(0) if len(tables) > 1 else tables[0]

        unit.replies[b"??D*"] = table
        device, _, _ = await opened(unit)
        assert (await device.poll()).units["Mass_Flow"] == "SLPM"

    @pytest.mark.parametrize(
        ("row", "damage"),
        [
            (b"005 Mass Flow ", b"004 Mass Flow "),
            (b"005 Mass Flow ", b"005 Mass Vlow "),
            (b"002 02 `C", b"002 02 `K"),
            (b"7/2 012 02 CCM", b"7/6 012 02 CCM"),
        ],
    )
    async def test_table_with_one_damaged_byte_is_read_again_at_opening(
        self, row: bytes, damage: bytes
    ) -> None:
        unit = controller()
        damaged = [line.replace(row, damage) for line in FORMAT_10V20]
        tables = [damaged, FORMAT_10V20]
        unit.replies[b"??D*"] = lambda command: tables.pop(0) if len(tables) > 1 else tables[0]
        device, _, _ = await opened(unit)
        assert device.data_frame_format.fields[3].name == "Mass_Flow"
        assert device.data_frame_format.fields[3].statistic is Statistic.MASS_FLOW
        assert device.data_frame_format.fields[1].unit_label == "°C"
        assert device.data_frame_format.fields[2].decimals == 2

    async def test_full_scale_in_another_unit_has_the_table_read_again_at_opening(self) -> None:
        unit = controller()
        tables = [
            FORMAT_10V20,
            [row.replace(b"012 02 SCCM", b"007 02 SLPM") for row in FORMAT_10V20],
        ]
        unit.replies[b"??D*"] = lambda command: tables.pop(0) if len(tables) > 1 else tables[0]
        unit.replies[b"FPF 5"] = b"A +000.50 07 SLPM"
        device, _, _ = await opened(unit)
        assert (await device.poll()).units["Mass_Flow"] == "SLPM"

    async def test_no_reading_is_labelled_until_the_changed_format_is_read(self) -> None:
        unit = controller()
        device, bus, _ = await opened(unit, config=AlicatConfig(unit_check_s=1e-9))
        show_in_slpm(unit)
        table, unit.replies[b"??D*"] = unit.replies[b"??D*"], None
        for _ in range(2):
            with pytest.raises(AlicatTimeoutError):
                await device.poll()
        assert b"A" not in bus.commands
        unit.replies[b"??D*"] = table
        assert (await device.poll()).units["Mass_Flow"] == "SLPM"

    async def test_damaged_answer_is_no_change_of_unit(self) -> None:
        unit = controller()
        device, bus, events = await opened(unit, config=AlicatConfig(unit_check_s=1e-9))
        bus.change_next(lambda reply: reply.replace(b"SCCM", b"SBCM"))
        assert (await device.poll()).units["Mass_Flow"] == "SCCM"
        assert events == []

    async def test_table_that_never_comes_twice_alike_is_refused(self) -> None:
        unit = controller()
        device, _, _ = await opened(unit)
        numbers = count(100)
        unit.replies[b"??D*"] = lambda command: [
            row.replace(b"SCCM", b"X%d" % next(numbers)) for row in FORMAT_10V20
        ]
        with pytest.raises(AlicatParseError, match="differently each of 5 times"):
            await device.refresh_data_frame_format()

    async def test_change_that_another_task_has_seen_outlasts_a_cancelled_refresh(self) -> None:
        unit = controller()
        device, _, _ = await opened(unit)
        refresh = anyio.CancelScope()

        def setpoint(command: bytes) -> bytes:
            show_in_slpm(unit)
            unit.replies[b""] = cancelling
            return b"A +000.00 +000.10 07 SLPM"

        def cancelling(command: bytes) -> None:
            # Of the refresh, which asks for a frame after its first table.
            unit.replies[b""] = unit.counting_poll
            refresh.cancel()

        unit.replies[b"LS*"] = setpoint

        await beside_a_refresh(device, refresh, device.setpoint)
        assert refresh.cancelled_caught
        assert (await device.poll()).units["Mass_Flow_Setpt"] == "SLPM"

    async def test_refresh_reads_the_format_although_another_one_was_cancelled(self) -> None:
        unit = controller()
        device, bus, _ = await opened(unit)
        first = anyio.CancelScope()

        def table(command: bytes) -> None:
            show_in_slpm(unit)
            first.cancel()

        unit.replies[b"??D*"] = table

        await beside_a_refresh(device, first, device.refresh_data_frame_format)
        assert first.cancelled_caught
        assert bus.commands.count(b"A??D*") >= 2
        assert (await device.poll()).units["Mass_Flow"] == "SLPM"

    async def test_reading_that_was_asked_before_the_columns_changed_is_asked_again(self) -> None:
        unit = controller()
        device, bus, _ = await opened(unit)
        show_in_slpm(unit)

        async def refresh() -> None:
            await device.refresh_data_frame_format()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refresh)
            await anyio.lowlevel.checkpoint()
            reading = await device.poll()
        assert reading.units["Mass_Flow"] == "SLPM"
        assert bus.commands[-1] == b"A"


class TestLetterlessAnswers:
    async def test_late_frame_of_another_unit_is_not_taken_for_the_answer(self) -> None:
        first, second = controller("A"), controller("B")
        first.replies[b"DV*"] = b"+014.62 +003.00"
        device, bus, _ = await opened(first, second)
        other = await open_device(device.client, unit_id="B", timeout=TIMEOUT)
        bus.hold_next("B")
        with pytest.raises(AlicatTimeoutError):
            await other.poll()
        bus.commands.clear()
        measured = await device.request(["abs_press", "mass_flow"])
        assert measured.values == {Statistic.ABS_PRESS: 14.62, Statistic.MASS_FLOW: 3.0}
        assert bus.commands == [b"BVE", b"ADV 1 2 5"]

    async def test_unit_that_is_switched_off_does_not_prevent_the_question(self) -> None:
        first, second = controller("A"), controller("B")
        first.replies[b"DV*"] = b"+014.62"
        device, bus, _ = await opened(first, second)
        other = await open_device(device.client, unit_id="B", timeout=TIMEOUT)
        del bus.units[b"B"]
        with pytest.raises(AlicatTimeoutError):
            await other.poll()
        assert (await device.request(["abs_press"])).values == {Statistic.ABS_PRESS: 14.62}

    async def test_answer_without_a_letter_that_comes_late_is_skipped(self) -> None:
        first, second = controller("A"), controller("B")
        first.replies[b"DV*"] = b"+099.99 +099.99 +099.99"
        device, bus, _ = await opened(first, second)
        other = await open_device(device.client, unit_id="B", timeout=TIMEOUT)
        bus.hold_next("A")
        with pytest.raises(AlicatTimeoutError):
            await device.client.exchange(b"ADV 1 2 3 5\r", bytes.split, letterless=True)
        second.replies[b""] = lambda command: (bus.release("A"), second.counting_poll(command))[1]
        # The first frame proved the format.
        assert (await other.poll()).values["Mass_Flow"] == 2.0

    async def test_measured_values_must_be_as_many_as_were_asked_for(self) -> None:
        unit = controller()
        unit.replies[b"DV*"] = b"+014.62"
        device, _, _ = await opened(unit)
        with pytest.raises(Exception, match="values of 2 statistics"):
            await device.request(["abs_press", "mass_flow"])
