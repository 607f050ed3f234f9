"""``run.toml``: valid contents are parsed, everything else is refused with one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.cli._dashboard.plan import ChartLayout
from penstock.cli._errors import CommandError, ExitCode
from penstock.cli._recording.config import RunConfig, load_config, parse_config
from penstock.cli._recording.plan import DevicePlan, ModbusPlan, SetpointStep

EXAMPLE = Path(__file__).parents[3] / "examples" / "run.toml"

DEVICE = '[[device]]\nname = "argon"\nport = "/dev/ttyUSB0"\n'

MODBUS = '[[device]]\nname = "fuel"\nport = "/dev/ttyUSB0"\nprotocol = "modbus-rtu"\n'


def refusal(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(CommandError) as caught:
        parse_config(data, "run.toml")
    assert caught.value.code is ExitCode.CONFIG
    return str(caught.value)


def test_example_file_matches_its_comments() -> None:
    config = load_config(EXAMPLE)
    assert config == RunConfig(
        rate_hz=20.0,
        duration=60.0,
        out=Path("argon-run"),
        formats=("parquet", "csv"),
        devices=(
            DevicePlan(
                name="argon",
                port="/dev/ttyUSB0",
                unit_id="A",
                baudrate=19200,
                timeout=0.5,
                steps=(SetpointStep(0.0, 50.0), SetpointStep(30.0, 0.0)),
                rate_hz=20.0,
            ),
            DevicePlan(name="oxygen", port="/dev/ttyUSB0", unit_id="B"),
        ),
    )


def test_a_run_may_name_other_formats_and_a_second_folder() -> None:
    text = '[record]\nformats = ["parts", "sqlite"]\nfallback = "/mnt/spare"\n' + DEVICE
    config = parse_config(text.encode(), "run.toml")
    assert config.formats == ("parts", "sqlite")
    assert config.fallback == Path("/mnt/spare")


def test_charts_of_the_dashboard_are_laid_out() -> None:
    text = DEVICE.replace("argon", "lab.argon") + (
        '[[dash.chart]]\ntitle = "Flow"\nleft = ["lab.argon.Mass_Flow"]\n'
        'right = ["lab.argon.Abs_Press"]\nlog = ["right"]\n'
    )
    assert parse_config(text.encode(), "run.toml").charts == (
        ChartLayout(
            "Flow", (("lab.argon", "Mass_Flow"),), (("lab.argon", "Abs_Press"),), ("right",)
        ),
    )


def test_all_keys_except_name_and_port_have_defaults() -> None:
    config = parse_config(DEVICE.encode(), "run.toml")
    assert (config.rate_hz, config.duration, config.out) == (10.0, None, None)
    assert config.formats == ("parquet", "csv")
    assert config.devices == (DevicePlan("argon", "/dev/ttyUSB0", "A", 19200, 0.5, ()),)


def test_device_may_be_asked_by_modbus() -> None:
    text = MODBUS + 'number = 7\nfamily = "basis-meter"\ndecimals = 1\nunits = {mass_flow = "SCCM"}'
    (device,) = parse_config(text.encode(), "run.toml").devices
    assert device.unit_id == "7"
    assert device.modbus == ModbusPlan("rtu", 7, "basis-meter", {"mass_flow": "SCCM"}, 1)
    assert str(device) == "fuel: Modbus number 7 on /dev/ttyUSB0"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[record\n" + DEVICE, ["not valid TOML", "line 1"]),
        ("", ["run.toml", "no [[device]] table", "add one"]),
        ("[record]\nrat_hz = 1\n" + DEVICE, ["[record]", '"rat_hz"', "did you mean rate_hz?"]),
        ("[recrd]\nrate_hz = 1\n" + DEVICE, ['"recrd"', "did you mean record?"]),
        ("zzz = 1\n" + DEVICE, ['"zzz"', "the keys are record, device"]),
        ('[record]\nrate_hz = "20"\n' + DEVICE, ["[record]", 'rate_hz = "20"', "not a number"]),
        ("[record]\nrate_hz = true\n" + DEVICE, ["rate_hz = true", "not a number"]),
        ("[record]\nrate_hz = 0\n" + DEVICE, ["rate_hz = 0", "above 0 and up to 1000"]),
        ("[record]\nrate_hz = nan\n" + DEVICE, ["rate_hz = nan", "finite"]),
        ("[record]\nduration = -1\n" + DEVICE, ["duration = -1", "out of range"]),
        ("[record]\nduration = 1979-05-27\n" + DEVICE, ["duration = 1979-05-27", "not a number"]),
        (f"[record]\nduration = 1{'0' * 400}\n" + DEVICE, ["duration", "more than 60 digits"]),
        ("[record]\nout = 3\n" + DEVICE, ["out = 3", "not text"]),
        ('[record]\nout = ""\n' + DEVICE, ['out = ""', "empty"]),
        ("[record]\nformats = []\n" + DEVICE, ["formats = []", '"parquet", "csv"']),
        ('[record]\nformats = ["xls"]\n' + DEVICE, ['"xls"', "choose from"]),
        ('[record]\nformats = ["csv", "csv"]\n' + DEVICE, ['"csv" twice']),
        ("record = 3\n" + DEVICE, ["record = 3", "write [record]"]),
        ('[device]\nname = "a"\nport = "b"\n', ["device = {...}", "write [[device]]"]),
        ('[[device]]\nport = "/dev/ttyUSB0"\n', ["[[device]] number 1", "name is missing"]),
        ('[[device]]\nname = "argon"\n', ['[[device]] "argon"', "port is missing"]),
        (DEVICE + 'unit_id = "AB"\n', ['[[device]] "argon"', 'unit_id = "AB"', "A to Z"]),
        (DEVICE + 'unit_id = "a"\n', ['unit_id = "a"', "capital letter"]),
        (DEVICE + "unit_id = 1\n", ["unit_id = 1", "not text"]),
        (DEVICE + 'baudrate = "fast"\n', ['baudrate = "fast"', "whole number", "19200"]),
        (DEVICE + "baudrate = 9600.5\n", ["baudrate = 9600.5", "whole number"]),
        (DEVICE + "baudrate = 7\n", ["baudrate = 7", "from 50 to 4000000"]),
        (DEVICE + "timeout = 0\n", ["timeout = 0", "above 0 and up to 60"]),
        ('[[device]]\nname = "a"\nport = "x\\u0000y"\n', ["port", "cannot be printed"]),
        (DEVICE + "[[device.setpoint]]\nat = 0\n", ["setpoint]] number 1", "value is missing"]),
        (DEVICE + "[[device.setpoint]]\nat = -1\nvalue = 1\n", ["at = -1", "out of range"]),
        (DEVICE + "[[device.setpoint]]\nat = 1\nvalu = 1\n", ['"valu"', "did you mean value?"]),
        (
            DEVICE
            + "[[device.setpoint]]\nat = 2\nvalue = 1\n[[device.setpoint]]\nat = 2\nvalue = 2\n",
            ["[[device.setpoint]] number 2", "at = 2", "order of time"],
        ),
        (
            "[record]\nduration = 5\n" + DEVICE + "[[device.setpoint]]\nat = 5\nvalue = 1\n",
            ["at = 5", "after the end of the run (duration = 5)"],
        ),
        (DEVICE + DEVICE, ['two [[device]] tables have name = "argon"', "its own name"]),
        (
            DEVICE + '[[device]]\nname = "b"\nport = "/dev/ttyUSB0"\n',
            ['"argon" and "b" are both unit id A', "unit_id or port"],
        ),
        (
            DEVICE
            + '[[device]]\nname = "b"\nport = "/dev/ttyUSB0"\nunit_id = "B"\nbaudrate = 9600\n',
            ["19200 and 9600", "a port has one baud rate"],
        ),
        (DEVICE + 'protocol = "modbus"\n', ['protocol = "modbus"', '"ascii", "modbus-rtu"']),
        (DEVICE + "number = 1\n", ["number = 1", 'write protocol = "modbus-rtu"']),
        (MODBUS + 'unit_id = "A"\n', ['unit_id = "A"', "write number = 1"]),
        (MODBUS + "number = 248\n", ["number = 248", "from 1 to 247"]),
        (MODBUS + 'family = "coda"\n', ['family = "coda"', '"mass-flow-controller"']),
        (MODBUS + 'family = "basis-meter"\n', ["decimals is missing"]),
        (MODBUS + "decimals = 1\n", ["decimals = 1", "leave it out"]),
        (MODBUS + 'units = "SCCM"\n', ['units = "SCCM"', "mass_flow"]),
        (MODBUS + "assume_same_instrument = 1\n", ["= 1", "write true or false"]),
        (MODBUS + MODBUS.replace("fuel", "b"), ['"fuel" and "b" are both number 1', "own number"]),
        (MODBUS + DEVICE, ["modbus-rtu and ascii", "a port has one protocol"]),
        (DEVICE + "[dash]\nchart = 3\n", ["chart = 3", "write [[chart]]"]),
        (DEVICE + "[[dash.chart]]\n", ["[[dash.chart]] number 1", "left is missing"]),
        (
            DEVICE + '[[dash.chart]]\nleft = ["xenon.Mass_Flow"]\n',
            ['"xenon.Mass_Flow"', "the devices are argon"],
        ),
        (DEVICE + '[[dash.chart]]\nleft = ["argon"]\n', ['"argon"', "write DEVICE.FIELD"]),
        (
            DEVICE + '[[dash.chart]]\nleft = ["argon.Mass_Flow"]\nlog = ["up"]\n',
            ['"up"', '"left", "right"'],
        ),
    ],
)
def test_malformed_entry_is_refused_with_place_value_and_remedy(
    text: str, words: list[str]
) -> None:
    sentence = refusal(text)
    assert "\n" not in sentence
    for word in ["run.toml", *words]:
        assert word in sentence


def test_link_and_its_target_are_the_same_port(tmp_path: Path) -> None:
    port = tmp_path / "ttyUSB0"
    port.touch()
    link = tmp_path / "by-id"
    link.symlink_to(port)
    text = f'[[device]]\nname="a"\nport="{port}"\n[[device]]\nname="b"\nport="{link}"\n'
    assert "both unit id A" in refusal(text)


def test_bytes_that_are_not_text_are_refused_with_their_line() -> None:
    assert "line 2 is not UTF-8" in refusal(b'x = "\n\xff"')


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert parse_config(b"\xef\xbb\xbf" + DEVICE.encode(), "run.toml") == parse_config(
        DEVICE.encode(), "run.toml"
    )


def test_deeply_nested_brackets_are_refused() -> None:
    assert "not valid TOML" in refusal(b"x = " + b"[" * 100_000)


def test_number_with_thousands_of_digits_is_refused() -> None:
    assert "not valid TOML" in refusal(b"x = " + b"1" * 10_000)


@pytest.mark.parametrize("kind", ["missing", "folder", "huge"])
def test_unreadable_file_is_refused_with_its_path(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run.toml"
    if kind == "folder":
        path.mkdir()
    elif kind == "huge":
        path.write_bytes(b"#" * (1 << 21))
    with pytest.raises(CommandError) as caught:
        load_config(path)
    assert str(path) in str(caught.value)
    assert caught.value.code is ExitCode.CONFIG


@given(st.binary(max_size=200))
@example(b"\x00")
def test_garbage_is_always_refused_in_one_line(data: bytes) -> None:
    assert "\n" not in refusal(data)


_values = st.recursive(
    st.sampled_from(
        [
            "1",
            "-1",
            "0.5",
            "nan",
            "true",
            '"A"',
            '"modbus-tcp"',
            '"a\\nb"',
            '""',
            "1979-05-27",
            "[]",
            "{}",
            "0x7f",
        ]
    ),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
    max_leaves=6,
)
_record_keys = ["rate_hz", "duration", "out", "formats", "record", "device", "nonsense"]
_device_keys = ["name", "port", "unit_id", "baudrate", "timeout", "setpoint", "at", "value"]
_device_keys += ["protocol", "number", "family", "units", "decimals", "assume_same_instrument"]
_keys = st.sampled_from([*_record_keys, *_device_keys])
_headers = st.sampled_from(["[record]", "[[device]]", "[[device.setpoint]]", "[x]", "[[record]]"])
_lines = st.one_of(_headers, st.builds("{} = {}".format, _keys, _values))


@given(st.lists(_lines, max_size=15).map("\n".join))
def test_wrong_tables_and_types_are_accepted_or_refused_in_one_line(text: str) -> None:
    try:
        config = parse_config(text.encode(), "run.toml")
    except CommandError as error:
        assert "\n" not in str(error)
        assert str(error).startswith("run.toml: ")
        assert len(str(error)) < 400
    else:
        assert config.devices


def test_a_refused_address_is_not_shown_with_its_password() -> None:
    text = refusal(DEVICE + '[alarm]\nwebhook = "https://me:secret@lab/\\u0007"\n')
    assert 'webhook = "https://..." contains characters' in text
