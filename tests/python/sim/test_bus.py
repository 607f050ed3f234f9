"""Addressing, framing, pacing and faults of a line, on a clock that the test turns."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sim import FIRMWARE_5V12, Bus, BusFaults, MassFlowController

FRAME = " +014.62 +021.89 +000.00 +000.00 +000.00     N2\r"
POLL_BYTES = len("A" + FRAME)


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def instant_bus(*ids: str, faults: BusFaults | None = None) -> Bus:
    """No time passes on its line, so that an answer is there as soon as the request is."""
    units = [MassFlowController(unit_id) for unit_id in ids]
    return Bus(units, baudrate=None, turnaround=0.0, faults=faults, clock=lambda: 1.0)


def ask(bus: Bus, request: bytes) -> bytes:
    bus.feed(request)
    return bus.take_due()


# -- addressing --------------------------------------------------------------------------------


def test_only_the_addressed_unit_answers() -> None:
    bus = instant_bus("A", "B", "Z")
    assert ask(bus, b"B\r") == f"B{FRAME}".encode()
    assert ask(bus, b"zVE\r") == b"Z   10v20.0-R24 Jan  9 2025,15:04:07\r"


@pytest.mark.parametrize("request_", [b"C\r", b"CVE\r", b"\r", b"\r\r", b"1\r", b"\xff\r", b"@\r"])
def test_unknown_unit_ids_and_empty_requests_are_silent(request_: bytes) -> None:
    bus = instant_bus("A", "B")
    assert ask(bus, request_) == b""
    assert bus.next_deadline() is None


def test_an_unknown_command_answers_a_question_mark() -> None:
    assert ask(instant_bus("A"), b"AZZZ\r") == b"?\r"


def test_requests_are_cut_at_carriage_returns_wherever_the_pieces_end() -> None:
    bus = instant_bus("A", "B")
    assert ask(bus, b"A") == b""
    assert ask(bus, b"VE\rB") == b"A   10v20.0-R24 Jan  9 2025,15:04:07\r"
    assert ask(bus, b"\r") == f"B{FRAME}".encode()


def test_line_feeds_and_padding_around_a_request_are_ignored() -> None:
    assert ask(instant_bus("A"), b"\n\0A \r\nA\r\n") == 2 * f"A{FRAME}".encode()


def test_a_request_longer_than_the_input_buffer_is_not_understood() -> None:
    bus = instant_bus("A")
    assert ask(bus, b"A" + b" " * 100_000 + b"VE\r") == b"?\r"
    assert ask(bus, b"A\r") == f"A{FRAME}".encode()


def test_a_changed_unit_id_is_answered_and_heard_at_once() -> None:
    bus = instant_bus("A", "B")
    assert ask(bus, b"A@ C\r") == f"C{FRAME}".encode()
    assert ask(bus, b"A\r") == b""
    assert ask(bus, b"C@=D\r") == f"D{FRAME}".encode()
    assert ask(bus, b"D@ 5\r") == b"?\r"


def test_two_units_with_one_id_spoil_each_others_answer() -> None:
    bus = instant_bus("A", "B")
    ask(bus, b"ALS 210\r")
    ask(bus, b"BLS 120\r")
    ask(bus, b"B@ A\r")
    assert ask(bus, b"ALS\r") == b"A +000.00 +000.00 12 SCCM\r"


def test_duplicate_ids_are_refused_unless_wanted() -> None:
    units = [MassFlowController("A"), MassFlowController("A")]
    with pytest.raises(ValueError, match="not all different"):
        Bus(units)
    assert Bus(units, allow_duplicate_ids=True).units == tuple(units)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"baudrate": 0}, "baud rate 0"),
        ({"turnaround": -0.1}, "turnaround"),
        ({"chunk_time": 0.0}, "chunk time"),
    ],
)
def test_impossible_lines_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Bus([MassFlowController()], **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one unit"):
        Bus([])


# -- pacing ------------------------------------------------------------------------------------


def drain(bus: Bus, clock: Clock) -> list[tuple[float, bytes]]:
    """Follow the bus's own deadlines; what came, and when."""
    arrived = []
    while (deadline := bus.next_deadline()) is not None:
        clock.now = max(clock.now, deadline)
        arrived.append((clock.now, bus.take_due()))
    return arrived


@pytest.mark.parametrize("baudrate", [2400, 19200, 115200])
def test_an_answer_ends_when_its_last_bit_has_been_sent(baudrate: int) -> None:
    clock = Clock()
    bus = Bus([MassFlowController()], baudrate=baudrate, turnaround=0.0025, clock=clock)
    bus.feed(b"A\r")
    assert bus.take_due() == b""
    arrived = drain(bus, clock)
    expected = 50.0 + 2 * 10 / baudrate + 0.0025 + POLL_BYTES * 10 / baudrate
    assert arrived[-1][0] == pytest.approx(expected, abs=1e-9)
    assert b"".join(data for _, data in arrived) == f"A{FRAME}".encode()


def test_bytes_of_a_long_answer_come_gradually_and_never_too_early() -> None:
    clock = Clock()
    bus = Bus([MassFlowController()], baudrate=19200, turnaround=0.0, chunk_time=0.004, clock=clock)
    bus.feed(b"A\r")
    begin = 50.0 + 2 * 10 / 19200
    arrived = drain(bus, clock)
    assert len(arrived) > 3
    count = 0
    for when, data in arrived:
        count += len(data)
        assert when - begin >= count * 10 / 19200 - 1e-9
    assert all(b[0] - a[0] <= 1.5 * 0.004 for a, b in pairwise(arrived))


def test_the_schedule_does_not_drift_when_the_transport_looks_late() -> None:
    clock = Clock()
    bus = Bus([MassFlowController()], baudrate=19200, turnaround=0.002, clock=clock)
    each = (2 + POLL_BYTES) * 10 / 19200 + 0.002
    bus.feed(b"A\r" * 40)
    while (deadline := bus.next_deadline()) is not None:
        clock.now = deadline + 0.0009
        bus.take_due()
    # The request bytes of the later polls arrive while the first answers are being sent.
    expected = 50.0 + each + 39 * (POLL_BYTES * 10 / 19200 + 0.002)
    assert clock.now - 0.0009 == pytest.approx(expected, abs=1e-6)


def test_a_request_during_an_answer_waits_until_the_line_is_free() -> None:
    clock = Clock()
    bus = Bus(
        [MassFlowController("A"), MassFlowController("B")],
        baudrate=9600,
        turnaround=0.001,
        clock=clock,
    )
    bus.feed(b"A\r")
    clock.now += 0.010
    bus.feed(b"B\r")
    answers = b"".join(data for _, data in drain(bus, clock))
    assert answers == f"A{FRAME}B{FRAME}".encode()
    expected = 50.0 + 2 * 10 / 9600 + 2 * (0.001 + POLL_BYTES * 10 / 9600)
    assert clock.now == pytest.approx(expected, abs=1e-9)


def test_an_unpaced_bus_answers_in_the_same_instant() -> None:
    clock = Clock()
    bus = Bus([MassFlowController()], baudrate=None, turnaround=0.0, clock=clock)
    bus.feed(b"A\r")
    assert bus.take_due() == f"A{FRAME}".encode()


def test_a_flood_of_requests_makes_the_bus_congested_until_it_is_drained() -> None:
    clock = Clock()
    bus = Bus([MassFlowController()], baudrate=19200, clock=clock)
    while not bus.congested:
        bus.feed(b"A\r" * 100)
    drain(bus, clock)
    assert not bus.congested


# -- streaming ---------------------------------------------------------------------------------


def test_streaming_sends_a_frame_each_interval_without_a_unit_id() -> None:
    clock = Clock()
    bus = Bus([MassFlowController()], baudrate=None, turnaround=0.0, clock=clock)
    assert ask(bus, b"ANCS 100\r") == b"A 100\r"
    stream = ask(bus, b"A@ @\r")
    for _ in range(100):
        deadline = bus.next_deadline()
        assert deadline is not None
        clock.now = deadline
        stream += bus.take_due()
    assert stream == 101 * f" {FRAME}".encode()
    assert clock.now == pytest.approx(60.0)
    # The unit does not hear its old id any more, and stops at the word for a streaming one.
    bus.feed(b"AVE\r@@ A\r")
    assert bus.take_due() == f"A{FRAME}".encode()
    assert bus.next_deadline() is None
    assert ask(bus, b"AVE\r").startswith(b"A   10v20")


def test_older_firmware_streams_with_an_at_sign() -> None:
    clock = Clock()
    unit = MassFlowController(firmware=FIRMWARE_5V12)
    bus = Bus([unit], baudrate=None, turnaround=0.0, clock=clock)
    assert ask(bus, b"A@=@\r") == b"@ +014.62 +021.89 +0000.0 +0000.0 0000.0      N2\r"


def test_a_stop_word_to_a_unit_that_does_not_stream_changes_nothing() -> None:
    bus = instant_bus("A")
    assert ask(bus, b"@@ A\r") == b""
    assert ask(bus, b"A\r") == f"A{FRAME}".encode()


def test_a_stream_as_fast_as_possible_is_limited_by_the_line() -> None:
    clock = Clock()
    bus = Bus([MassFlowController()], baudrate=19200, turnaround=0.0, clock=clock)
    bus.feed(b"ANCS 0\rA@ @\r")
    received = 0
    while clock.now < 51.0:
        clock.now += 0.01
        received += len(bus.take_due())
    assert received <= 1.01 * 19200 / 10
    assert received >= 0.9 * 19200 / 10


def test_what_was_streamed_while_nobody_looked_is_lost() -> None:
    clock = Clock()
    bus = Bus([MassFlowController()], baudrate=19200, clock=clock)
    bus.feed(b"A@ @\r")
    clock.now += 3600.0
    assert len(bus.take_due()) < 10 * POLL_BYTES


def test_a_unit_may_be_left_streaming_from_the_start() -> None:
    bus = instant_bus("A", "B", faults=BusFaults(streaming=["B"]))
    assert bus.take_due() == f" {FRAME}".encode()
    assert ask(bus, b"A\r") == f"A{FRAME}".encode()


# -- faults ------------------------------------------------------------------------------------


def test_a_dropped_reply_is_missing_and_the_next_one_is_there() -> None:
    bus = instant_bus("A", faults=BusFaults(drop=[2]))
    answers = [ask(bus, request) for request in (b"A\r", b"AVE\r", b"ALSS\r")]
    assert answers == [f"A{FRAME}".encode(), b"", b"A S\r"]
    assert bus.replies == 3


def test_a_late_reply_comes_complete_after_its_delay() -> None:
    clock = Clock()
    bus = Bus(
        [MassFlowController()],
        baudrate=None,
        turnaround=0.0,
        clock=clock,
        faults=BusFaults(late={1: 0.75}),
    )
    bus.feed(b"ALSS\r")
    clock.now += 0.74
    assert bus.take_due() == b""
    clock.now = 50.75
    assert bus.take_due() == b"A S\r"


def test_a_reply_may_carry_another_units_id() -> None:
    bus = instant_bus("A", faults=BusFaults(foreign_id={1: "B"}))
    assert ask(bus, b"A\r") == f"B{FRAME}".encode()
    assert ask(bus, b"A\r") == f"A{FRAME}".encode()


def test_a_corrupt_reply_differs_in_one_byte_and_keeps_its_end() -> None:
    bus = instant_bus("A", faults=BusFaults(corrupt=[1]))
    good = f"A{FRAME}".encode()
    bad = ask(bus, b"A\r")
    assert len(bad) == len(good)
    assert sum(a != b for a, b in zip(bad, good, strict=True)) == 1
    assert bad.endswith(b"\r")
    assert bad.count(b"\r") == 1


def test_random_faults_are_the_same_for_the_same_seed() -> None:
    def run(seed: int) -> list[bytes]:
        faults = BusFaults(drop_rate=0.2, corrupt_rate=0.2, seed=seed)
        bus = instant_bus("A", faults=faults)
        return [ask(bus, b"A\r") for _ in range(200)]

    first = run(7)
    assert run(7) == first
    assert run(8) != first
    assert 15 < first.count(b"") < 70
    assert 15 < sum(answer not in (b"", f"A{FRAME}".encode()) for answer in first) < 70


@pytest.mark.parametrize(
    "arguments", [{"drop_rate": 1.5}, {"late": {1: -1.0}}, {"unplug": [(1.0, -1.0)]}]
)
def test_impossible_faults_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1|negative"):
        BusFaults(**arguments)  # type: ignore[arg-type]


# -- anything at all ---------------------------------------------------------------------------

_TEXT = "A B VE ??M* ??D* LS LSS S GS DV @ = 12 0 -5 1.5 nan NCS SR T HP FPF \xff"
_WORDS = st.sampled_from(
    [word.encode("latin-1") for word in _TEXT.split()] + [b" ", b"\r", b"\n", b"\0"]
)


@given(pieces=st.lists(st.one_of(st.binary(max_size=40), _WORDS), max_size=40))
def test_no_bytes_break_the_engine_and_every_answer_is_whole_lines(pieces: list[bytes]) -> None:
    clock = Clock()
    bus = Bus([MassFlowController("A")], baudrate=None, turnaround=0.0, clock=clock)
    received = b""
    for piece in pieces:
        bus.feed(piece)
        clock.now += 0.02
        received += bus.take_due()
    assert received == b"" or received.endswith(b"\r")
    for line in received.split(b"\r")[:-1]:
        assert line
        assert all(0x20 <= byte < 0x7F for byte in line)
    # However it was treated, a unit that is found again is still in order.
    bus.feed(b"\r@@ Q\r")
    for letter in range(ord("A"), ord("Z") + 1):
        bus.feed(bytes([letter]) + b"U\r")
    clock.now += 1.0
    bus.take_due()
    (unit,) = bus.units
    bus.feed(unit.unit_id.encode() + b"VE\r")
    clock.now += 1.0
    assert bus.take_due().endswith(b"10v20.0-R24 Jan  9 2025,15:04:07\r")


@given(
    data=st.binary(max_size=200),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_the_answer_does_not_depend_on_how_the_bytes_are_cut(data: bytes, cuts: list[int]) -> None:
    whole, pieces = instant_bus("A", "B"), instant_bus("A", "B")
    data += b"\rA\r"
    whole.feed(data)
    edges = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    for begin, end in pairwise(edges):
        pieces.feed(data[begin:end])
    assert pieces.take_due() == whole.take_due()
