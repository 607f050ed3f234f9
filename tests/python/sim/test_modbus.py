"""Simulated instruments that use Modbus: bytes of the specification in and out."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sim import (
    FIRMWARE_5V12,
    AsciiUnit,
    BasisController,
    Bus,
    BusFaults,
    CoriolisMeter,
    LiquidController,
    MassFlowController,
    MassFlowMeter,
    ModbusRtuFraming,
    ModbusTcpFraming,
    ModbusUnit,
    PressureController,
)
from penstock.sim._line.framing import modbus_checksum

WORDS = st.integers(0, 0xFFFF)


def read_body(register: int, count: int, function: int = 3) -> bytes:
    return struct.pack(">BHH", function, register - 1, count)


def write_body(register: int, *words: int) -> bytes:
    count = len(words)
    return struct.pack(f">BHHB{count}H", 16, register - 1, count, 2 * count, *words)


def rtu(number: int, body: bytes) -> bytes:
    content = bytes([number]) + body
    return content + modbus_checksum(content)


def unit_of(unit: AsciiUnit | None = None) -> ModbusUnit:
    return ModbusUnit(unit or MassFlowController("A", tau=0.0, clock=lambda: 0.0))


def ask(unit: ModbusUnit, body: bytes) -> bytes:
    (answer,) = unit.respond(body, 1.0)
    return answer


def words_of(unit: ModbusUnit, register: int, count: int) -> tuple[int, ...]:
    answer = ask(unit, read_body(register, count))
    assert answer[:2] == bytes([3, 2 * count]), answer
    return struct.unpack(f">{count}H", answer[2:])


def number_at(unit: ModbusUnit, register: int) -> float:
    pair = words_of(unit, register, 2)
    return float(struct.unpack(">f", struct.pack(">HH", *pair))[0])


def command(unit: ModbusUnit, number: int, argument: int) -> int:
    assert ask(unit, write_body(1000, number, argument)) == bytes.fromhex("10 03e7 0002")
    executed, result = words_of(unit, 1000, 2)
    assert executed == number
    return result


def floats(value: float) -> tuple[int, int]:
    high, low = struct.unpack(">HH", struct.pack(">f", value))
    return high, low


# -- registers --------------------------------------------------------------------------------


def test_controller_has_the_registers_of_the_manual() -> None:
    unit = unit_of()
    assert ask(unit, write_body(1010, *floats(120.0))) == bytes.fromhex("10 03f1 0002")
    unit.unit.instrument.advance(2.0)
    assert number_at(unit, 1010) == 120.0
    assert number_at(unit, 1203) == pytest.approx(14.62)
    assert number_at(unit, 1205) == pytest.approx(21.89)
    assert number_at(unit, 1209) == number_at(unit, 1211) == 120.0
    assert words_of(unit, 1200, 1) == (8,)
    assert ask(unit, read_body(1200, 13, function=4))[:2] == bytes([4, 26])


def test_status_bits_are_those_of_the_manual() -> None:
    unit = unit_of()
    unit.unit.inject_status("ADC", "TMF")
    assert command(unit, 6, 2) == 0
    unit.unit.force_flow(5000.0)
    high, low = words_of(unit, 1201, 2)
    assert (high, low) == (0, 1 << 9 | 1 << 12 | 1 << 8 | 1 << 4 | 1 << 2)


@pytest.mark.parametrize(
    ("make", "there", "absent"),
    [
        (MassFlowMeter, [(1200, 11)], [(1010, 2), (1211, 2)]),
        (LiquidController, [(1201, 8), (1010, 2)], [(1200, 1), (1209, 2), (1050, 1)]),
        (PressureController, [(1201, 4), (1010, 2)], [(1200, 1), (1205, 2)]),
        (CoriolisMeter, [(1201, 12), (2041, 8), (2051, 4)], [(1200, 1), (1000, 2), (1010, 2)]),
        (BasisController, [(25, 7), (35, 2), (45, 4), (2100, 8)], [(1200, 1), (2110, 1)]),
    ],
)
def test_families_have_their_registers_alone(
    make: type[AsciiUnit], there: list[tuple[int, int]], absent: list[tuple[int, int]]
) -> None:
    unit = ModbusUnit(make("A"))  # type: ignore[call-arg]
    for register, count in there:
        assert len(words_of(unit, register, count)) == count
    for register, count in absent:
        assert ask(unit, read_body(register, count)) == b"\x83\x02"


def test_coda_has_units_of_its_own() -> None:
    meter = CoriolisMeter("A", full_scale=100.0, tau=0.0, clock=lambda: 0.0)
    meter.instrument.supply(10.0)
    unit = ModbusUnit(meter, 7)
    unit.unit.instrument.advance(1.0)
    assert number_at(unit, 1203) == 1000.0
    assert number_at(unit, 1209) == pytest.approx(600.0)
    assert number_at(unit, 1207) == pytest.approx(0.0006)
    assert words_of(unit, 2053, 1) == (7,)


def test_basis_tells_its_serial_number_and_its_readings() -> None:
    basis = BasisController("C", serial_number="B123456", tau=0.0, clock=lambda: 0.0)
    unit = ModbusUnit(basis)
    serial = struct.pack(">6H", *words_of(unit, 26, 6)).rstrip(b"\0")
    assert serial == b"B123456"
    assert words_of(unit, 25, 1) == (256 * 2 + 16,)
    assert words_of(unit, 35, 2) == (0, 100)
    assert words_of(unit, 45, 4) == (1, ord("C"), 1, 34464)
    basis.setpoint = 20.0
    unit.unit.instrument.advance(1.0)
    assert words_of(unit, 2100, 8) == (3, 0, 2457, 200, 0, 0, 200, 2000)
    assert ask(unit, write_body(2100, 2)) == bytes.fromhex("10 0833 0001")
    assert basis.gas.short == "CO2"
    assert ask(unit, write_body(2100, 99)) == bytes.fromhex("10 0833 0001")
    assert basis.gas.short == "CO2"
    assert ask(unit, write_body(39, 1)) == b"\x90\x03"
    assert ask(unit, write_body(39, 0xAA55)) == bytes.fromhex("10 0026 0001")
    assert words_of(unit, 2103, 1) == (0,)


# -- special commands -------------------------------------------------------------------------


def test_commands_act_on_the_instrument_that_ascii_shows() -> None:
    unit = unit_of()
    ascii_unit = unit.unit
    assert command(unit, 1, 1) == 0
    assert ascii_unit.answer("GS") == ["A 1 Ar Argon"]
    assert command(unit, 6, 1) == 0
    assert ascii_unit.answer("")[0].endswith("HLD")
    assert command(unit, 6, 3) == 0
    assert ascii_unit.answer("")[0].endswith("HLD EXH")
    assert command(unit, 6, 0) == 0
    assert command(unit, 7, 1) == 0
    assert ascii_unit.answer("")[0].endswith("LCK")
    assert command(unit, 8, 300) == 0
    assert ascii_unit.answer("R21") == ["A   021 = 300"]
    assert command(unit, 14, 0) == 300
    assert command(unit, 11, 3) == 0
    assert ascii_unit.answer("LV") == ["A 34"]
    assert command(unit, 13, 2) == 0
    assert ascii_unit.answer("R85") == ["A   085 = 2"]


def test_setpoint_is_kept_for_the_next_power_up() -> None:
    unit = unit_of()
    ask(unit, write_body(1010, *floats(40.0)))
    assert command(unit, 12, 0) == 0
    ask(unit, write_body(1010, *floats(60.0)))
    unit.reboot(1.0, 0.0)
    assert number_at(unit, 1010) == 40.0


def test_mix_is_made_and_deleted() -> None:
    unit = unit_of()
    ask(unit, write_body(1050, 8, 5000, 11, 5000))
    assert command(unit, 2, 240) == 240
    assert command(unit, 2, 0) == 236
    assert command(unit, 1, 240) == 0
    assert unit.unit.gas.long == "50% N2, 50% O2"
    assert command(unit, 3, 240) == 0
    assert command(unit, 3, 240) == 32772
    ask(unit, write_body(1050, 8, 5000, 220, 5000))
    assert command(unit, 2, 240) == 32773
    ask(unit, write_body(1050, 8, 5000, 11, 4999))
    assert command(unit, 2, 240) == 32774


@pytest.mark.parametrize(
    ("make", "number", "argument", "result"),
    [
        (MassFlowController, 99, 0, 32769),
        (MassFlowController, 1, 230, 32770),
        (MassFlowController, 4, 3, 32770),
        (MassFlowController, 11, 2, 32771),
        (MassFlowMeter, 6, 0, 32771),
        (MassFlowMeter, 8, 5, 32771),
        (PressureController, 1, 8, 32771),
        (PressureController, 5, 0, 32771),
        (PressureController, 4, 2, 32771),
    ],
)
def test_impossible_commands_have_the_results_of_the_manual(
    make: type[AsciiUnit], number: int, argument: int, result: int
) -> None:
    unit = ModbusUnit(make("A"))  # type: ignore[call-arg]
    assert command(unit, number, argument) == result


def test_exhaust_needs_a_firmware_that_has_it() -> None:
    unit = unit_of(MassFlowController("A", firmware=FIRMWARE_5V12))
    assert command(unit, 6, 3) == 32771


def test_number_changes_after_the_answer() -> None:
    bus = modbus_bus(1)
    assert exchanged(bus, rtu(1, write_body(1000, 32767, 9))) == rtu(1, bytes.fromhex("1003e70002"))
    assert exchanged(bus, rtu(9, read_body(1200, 1))) == rtu(9, b"\x03\x02\x00\x08")
    assert exchanged(bus, rtu(1, read_body(1200, 1))) == b""


# -- exceptions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (bytes.fromhex("01 0000 0001"), "81 01"),
        (bytes.fromhex("2b 0e 01 00"), "ab 01"),
        (read_body(1199, 2), "83 02"),
        (read_body(1, 1), "83 02"),
        (read_body(1200, 0), "83 03"),
        (read_body(1200, 126), "83 03"),
        (read_body(1200, 1)[:-1], "83 03"),
        (write_body(1203, 1), "90 02"),
        (write_body(1000, 1), "90 02"),
        (write_body(1200, 230), "90 03"),
        (write_body(1010, *floats(600.0)), "90 03"),
        (write_body(1010, *floats(float("nan"))), "90 03"),
        (write_body(1010, 1, 2)[:-1], "90 03"),
        (struct.pack(">BHH", 6, 1199, 1), "06 04af 0001"),
        (struct.pack(">BHH", 6, 1202, 1), "86 02"),
    ],
)
def test_requests_are_refused_as_the_specification_says(body: bytes, answer: str) -> None:
    assert ask(unit_of(), body) == bytes.fromhex(answer)


@given(st.binary(min_size=1, max_size=40))
def test_any_request_has_an_answer(body: bytes) -> None:
    answer = ask(unit_of(), body)
    assert answer[0] & 0x7F == body[0] & 0x7F


@given(st.integers(0, 70000), st.integers(0, 130))
def test_any_registers_are_read_or_refused(register: int, count: int) -> None:
    answer = ask(unit_of(), struct.pack(">BHH", 3, min(register, 0xFFFF), count))
    assert answer in (b"\x83\x02", b"\x83\x03") or len(answer) == 2 + 2 * count


# -- framing ----------------------------------------------------------------------------------


def modbus_bus(*numbers: int, faults: BusFaults | None = None) -> Bus:
    units = [ModbusUnit(MassFlowController("A"), number) for number in numbers]
    return Bus(
        units,
        baudrate=None,
        turnaround=0.0,
        framing=ModbusRtuFraming(),
        faults=faults,
        clock=lambda: 0.0,
    )


def exchanged(bus: Bus, data: bytes, now: float = 0.0) -> bytes:
    bus.feed(data, now)
    return bus.take_due(now + 1.0)


def test_only_the_unit_that_is_asked_answers() -> None:
    bus = modbus_bus(1, 2)
    for number in (1, 2):
        assert exchanged(bus, rtu(number, read_body(1200, 1))) == rtu(number, b"\x03\x02\x00\x08")
    assert exchanged(bus, rtu(3, read_body(1200, 1))) == b""


def test_request_to_all_is_executed_and_not_answered() -> None:
    bus = modbus_bus(1, 2)
    assert exchanged(bus, rtu(0, write_body(1200, 1))) == b""
    assert exchanged(bus, rtu(2, read_body(1200, 1))) == rtu(2, b"\x03\x02\x00\x01")


def test_line_is_paced_by_its_baud_rate() -> None:
    bus = Bus(
        [ModbusUnit(MassFlowController("A"))],
        baudrate=9600,
        turnaround=0.002,
        framing=ModbusRtuFraming(),
        clock=lambda: 0.0,
    )
    bus.feed(rtu(1, read_body(1200, 1)), 0.0)
    end = (8 + 7) * 10 / 9600 + 0.002
    assert bus.take_due(end - 1e-6) == b""
    assert bus.take_due(end + 1e-6) == rtu(1, b"\x03\x02\x00\x08")


def test_damaged_request_is_ignored_and_silence_ends_it() -> None:
    bus = modbus_bus(1)
    good = rtu(1, read_body(1200, 1))
    assert exchanged(bus, good[:-1] + bytes([good[-1] ^ 1]), 0.0) == b""
    assert exchanged(bus, good, 0.05) == b""
    assert exchanged(bus, good, 1.0) == rtu(1, b"\x03\x02\x00\x08")


@given(st.binary(max_size=300))
def test_noise_before_a_silence_does_no_harm(noise: bytes) -> None:
    framing = ModbusRtuFraming()
    framing.feed(noise, 0.0)
    good = rtu(1, read_body(1200, 1))
    assert [request.body for request in framing.feed(good, 10.0)] == [good[1:-2]]


@given(st.lists(st.integers(0, 1000), max_size=6), st.lists(WORDS, min_size=1, max_size=20))
def test_rtu_requests_are_cut_however_they_arrive(cuts: list[int], words: list[int]) -> None:
    bodies = [read_body(1200, 1), write_body(1050, *words), struct.pack(">BHH", 6, 1199, 1)]
    data = b"".join(rtu(n, body) for n, body in enumerate(bodies, start=1))
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    framing = ModbusRtuFraming()
    found = [r for a, b in pairwise(edges) for r in framing.feed(data[a:b], 0.0)]
    assert [(r.address, r.body) for r in found] == [
        (str(n), body) for n, body in enumerate(bodies, start=1)
    ]


@given(st.lists(st.integers(0, 1000), max_size=6), WORDS)
def test_tcp_requests_are_cut_however_they_arrive(cuts: list[int], number: int) -> None:
    bodies = [read_body(1200, 1), write_body(1050, 1, 2)]
    data = b"".join(struct.pack(">HHHB", number, 0, 1 + len(body), 7) + body for body in bodies)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    framing = ModbusTcpFraming()
    found = [r for a, b in pairwise(edges) for r in framing.feed(data[a:b], 0.0)]
    assert [(r.address, r.body, r.number) for r in found] == [("7", b, number) for b in bodies]
    assert framing.encode(found[0], [b"\x03"]) == struct.pack(">HHHB", number, 0, 2, 7) + b"\x03"


def test_tcp_connection_that_speaks_something_else_is_not_understood_any_more() -> None:
    framing = ModbusTcpFraming()
    body = read_body(1200, 1)
    good = struct.pack(">HHHB", 1, 0, 1 + len(body), 1) + body
    assert framing.feed(b"GET / HTTP/1.1\r\n", 0.0) == []
    assert framing.feed(good, 9.0) == []
    framing.reset()
    assert len(framing.feed(good, 10.0)) == 1


def test_faults_hit_modbus_lines_too() -> None:
    bus = modbus_bus(1, faults=BusFaults(drop=[1], corrupt=[2]))
    request = rtu(1, read_body(1200, 1))
    answer = rtu(1, b"\x03\x02\x00\x08")
    assert exchanged(bus, request) == b""
    damaged = exchanged(bus, request)
    assert len(damaged) == len(answer) and damaged != answer
    assert exchanged(bus, request) == answer


def test_unit_number_out_of_range_is_refused() -> None:
    for number in (0, 248):
        with pytest.raises(ValueError, match=f"{number} is not between 1 and 247"):
            ModbusUnit(MassFlowController("A"), number)
