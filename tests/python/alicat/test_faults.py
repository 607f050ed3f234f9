"""Whatever goes wrong on the wire, no reading is stale and none is another unit's."""

from __future__ import annotations

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.alicat import AlicatError, AlicatProtocolClient, ByteStreamTransport
from penstock.alicat._instrument.data_frame import parse_data_frame_format

from .captures import FORMAT_10V20, FRAME_10V20, VERSION_10V20
from .scripted_bus import ScriptedBus, controller

FORMAT = parse_data_frame_format(FORMAT_10V20)
FAULTS = ["none", "drop", "hold", "double", "flip", "tear", "cut", "rename", "noise", "unended"]

step = st.tuples(st.sampled_from("AB"), st.sampled_from(FAULTS), st.integers(0, 40), st.booleans())


def put_fault(bus: ScriptedBus, unit_id: str, fault: str, place: int) -> None:
    other = b"B" if unit_id == "A" else b"A"

    def flip(reply: bytes) -> bytes:
        at = place % len(reply)
        return reply[:at] + bytes([reply[at] ^ 0x40]) + reply[at + 1 :]

    changes = {
        "double": lambda reply: reply * 2,
        "flip": flip,
        "tear": lambda reply: reply[:place] + b"\r" + reply[place:],
        "cut": lambda reply: reply[:place] + reply[place + 1 :],
        "rename": lambda reply: other + reply[1:],
        "noise": lambda reply: b"\x00\xff?" + reply,
        "unended": lambda reply: reply[:-1],
    }
    if fault == "drop":
        bus.drop_next(unit_id)
    elif fault == "hold":
        bus.hold_next(unit_id)
    elif fault in changes:
        bus.change_next(changes[fault], unit_id)


async def run(steps: list[tuple[str, str, int, bool]], knows_waiting: bool) -> None:
    bus = ScriptedBus(controller("A"), controller("B"), knows_waiting=knows_waiting)
    transport = ByteStreamTransport(bus, baudrate=None)
    client = AlicatProtocolClient(transport, default_timeout=0.02, idle_timeout=0.002)
    decoders = {}
    for unit_id in "AB":
        version = unit_id.encode() + VERSION_10V20[1:]
        client.register_proof(unit_id, f"{unit_id}VE\r".encode(), version)
        sample = unit_id.encode() + FRAME_10V20[1:]
        decoders[unit_id] = FORMAT.decoder(unit_id, sample)

    async def poll_right(unit_id: str) -> bool:
        try:
            exchange = await client.exchange(f"{unit_id}\r".encode(), decoders[unit_id])
        except AlicatError:
            return False
        # The frame's mass flow is the number of the poll that it answers.
        assert exchange.value.unit_id == unit_id
        assert exchange.value.values == {
            "Abs_Press": 14.62,
            "Flow_Temp": 21.89,
            "Volu_Flow": 0.0,
            "Mass_Flow": float(bus.units[unit_id.encode()].polls),
            "Mass_Flow_Setpt": 78.95,
            "Gas": "N2",
        }
        return True

    for unit_id, fault, place, release in steps:
        put_fault(bus, unit_id, fault, place)
        await poll_right(unit_id)
        if release:
            bus.release(unit_id)
    # Once the wire is whole again, so are the readings, after one at most to find that out.
    for unit_id in "AB":
        bus.units[unit_id.encode()].faults.clear()
        bus.release(unit_id)
        await poll_right(unit_id)
        assert await poll_right(unit_id)


@settings(max_examples=60)
@given(st.lists(step, min_size=1, max_size=8))
def test_readings_are_right_or_errors_on_a_serial_line(
    steps: list[tuple[str, str, int, bool]],
) -> None:
    anyio.run(run, steps, True)


@settings(max_examples=30)
@given(st.lists(step.filter(lambda s: s[1] not in ("double", "tear", "noise")), max_size=6))
def test_readings_are_right_or_errors_on_a_stream_that_cannot_tell_what_waits(
    steps: list[tuple[str, str, int, bool]],
) -> None:
    anyio.run(run, steps, False)
