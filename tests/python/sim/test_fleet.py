"""Fleets and fault plans from TOML files, and the sentences about files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.sim._fleet import FAMILIES, TomlError, read_fault_plan, read_fleet

FLEET = """\
seed = 7

[[bus]]
name = "gas"
baudrate = 115200

[[bus.unit]]
id = "A"
full_scale = 500
gas = "Ar"

[[bus.unit]]
id = "B"
family = "mass-flow-meter"
firmware = "8v17"
full_scale = 10
unit = "SLPM"
supply = 5

[[bus]]

[[bus.unit]]
id = "A"
family = "pressure-controller"
full_scale = 100
reference = "G"

[[bus.unit]]
id = "C"
family = "basis-controller"
full_scale = 100
"""


def written(path: Path, text: str) -> Path:
    file = path / "file.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_fleet_has_the_units_that_it_describes(tmp_path: Path) -> None:
    gas, other = read_fleet(written(tmp_path, FLEET))
    assert (gas.name, gas.bus.baudrate, other.name, other.bus.baudrate) == (
        "gas",
        115200,
        "bus2",
        19200,
    )
    assert [unit.unit_id for unit in gas.bus.units] == ["A", "B"]
    assert gas.bus.units[0].respond(b"GS", 0.0) == [b"A 1 Ar Argon"]
    assert gas.bus.units[1].respond(b"VE", 0.0) == [b"B   8v17.0-R23 Nov 27 2019,15:28:45"]
    assert gas.bus.units[1].respond(b"", 60.0)[0].split()[4] == b"+05.000"
    assert other.bus.units[0].respond(b"DCU 6", 0.0) == [b"A 10 PSIG"]
    assert other.bus.units[1].respond(b"SN", 0.0)[0].startswith(b"C B5217")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_can_be_written_with_its_least_keys(family: str, tmp_path: Path) -> None:
    text = f'[[bus]]\n[[bus.unit]]\nid = "A"\nfamily = "{family}"\nfull_scale = 50\n'
    (bus,) = read_fleet(written(tmp_path, text))
    assert bus.bus.units[0].respond(b"", 0.0)[0].startswith((b"A +", b"A -"))


UNIT = '[[bus]]\n[[bus.unit]]\nid = "A"\nfull_scale = 5\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "bus: there is none; write [[bus]]"),
        ("[[bus]]\n", "bus 1: unit: there is none"),
        ("[[bus]\n", "not TOML"),
        ('[[bus]]\n[[bus.unit]]\nid = "A"\n', "bus 1: unit 1: full_scale: is missing"),
        (UNIT + "fulscale = 3\n", "fulscale: is not a key that is known here; did you mean full_s"),
        (UNIT + 'family = "mass-flow-metre"\n', "did you mean 'mass-flow-meter'?"),
        (UNIT + 'gas = "Unobtainium"\n', "gas: 'Unobtainium' is not a gas; write a short name"),
        (UNIT + 'unit = "GPM"\n', "unit 'GPM' is not one of SCCM, SLPM"),
        (UNIT + 'firmware = "11v00"\n', "firmware: '11v00' is unknown"),
        (UNIT + 'tau = "fast"\n', "tau: 'fast' is not a number; write one without quotes"),
        (UNIT + "tau = -1\n", "time constant -1.0 s is negative; correct it"),
        (UNIT + "[[bus.unit]]\nid = 'A'\nfull_scale = 5\n", "unit ids A, A are not all different"),
        ('[[bus]]\nname = "../x"\n', "name: '../x' cannot be a file name"),
        ("bauds = 3\n" + UNIT, "bauds: is not a key"),
        (UNIT + 'family = "basis-meter"\nfirmware = "5v12"\n', "firmware: is not a key"),
    ],
)
def test_wrong_fleet_is_one_sentence_with_key_and_remedy(
    text: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(TomlError) as caught:
        read_fleet(written(tmp_path, text))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TomlError, match=r"none\.toml: No such file"):
        read_fleet(tmp_path / "none.toml")


PLAN = """\
seed = 3

[faults]
drop_rate = 0.1
late = {2 = 0.5}

[bus.gas]
drop_rate = 0
corrupt = [4, 5]
unplug = [[10, 2.5]]
streaming = ["B"]
"""


def test_plan_gives_every_bus_its_faults(tmp_path: Path) -> None:
    plan = read_fault_plan(written(tmp_path, PLAN))
    gas, other = plan.of("gas", 0), plan.of("bus2", 1)
    assert (gas.drop_rate, gas.seed, gas.late) == (0.0, 3, {2: 0.5})
    assert gas.corrupt == {4, 5}
    assert gas.unplug == [(10.0, 2.5)]
    assert (other.drop_rate, other.seed, other.corrupt) == (0.1, 1003, ())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[faults]\ndrop_rat = 0.1\n", "[faults]: drop_rat: is not a key"),
        ("[faults]\ndrop_rate = 2\n", "drop_rate: drop_rate 2.0 is not between 0 and 1"),
        ("[faults]\ndrop = [1.5]\n", "drop: [1.5] is not a list of reply numbers; write [1, 5]"),
        ("[faults]\nlate = {x = 1}\n", "is not a table by reply number; write {3 = 0.5}"),
        ("[faults]\nunplug = [1, 2]\n", "is not a list of pairs; write [[begin, seconds]]"),
        ("[bus]\ngas = 3\n", "gas: 3 is not a table"),
    ],
)
def test_wrong_plan_is_one_sentence_with_key_and_remedy(
    text: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(TomlError) as caught:
        read_fault_plan(written(tmp_path, text))
    assert sentence in str(caught.value)


def test_plan_for_a_bus_that_is_not_there_is_refused(tmp_path: Path) -> None:
    plan = read_fault_plan(written(tmp_path, "[bus.argon]\ndrop_rate = 0.5\n"))
    with pytest.raises(TomlError, match="names argon, and the buses are gas, bus2"):
        read_fleet(written(tmp_path, FLEET), plan)


MODBUS = """\
[[bus]]
protocol = "modbus-rtu"

[[bus.unit]]
id = "A"
full_scale = 500
number = 17

[[bus.unit]]
id = "B"
family = "basis-controller"
full_scale = 100
"""


def test_bus_can_speak_modbus(tmp_path: Path) -> None:
    (named,) = read_fleet(written(tmp_path, MODBUS))
    assert named.protocol == "modbus-rtu"
    assert [unit.unit_id for unit in named.bus.units] == ["17", "2"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("modbus-rtu", "modbus"), "bus 1: protocol: 'modbus' is unknown; did you mean"),
        (("17", "2"), "bus 1: unit: unit ids 2, 2 are not all different"),
        (("17", "300"), "bus 1: unit: Modbus unit number 300 is not between 1 and 247"),
        (('"modbus-rtu"', '"ascii"'), "unit 1: number: is not a key that is known here"),
    ],
)
def test_errors_of_modbus_buses_name_the_key(
    tmp_path: Path, change: tuple[str, str], sentence: str
) -> None:
    with pytest.raises(TomlError, match=sentence):
        read_fleet(written(tmp_path, MODBUS.replace(*change)))


def test_fleet_that_is_given_as_a_fault_plan_is_refused_in_a_short_sentence(tmp_path: Path) -> None:
    with pytest.raises(TomlError, match=r"bus: an array is not a table; write \[bus\]"):
        read_fault_plan(written(tmp_path, FLEET.replace("seed = 7", "")))
