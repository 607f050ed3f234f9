from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.alicat import AlicatParseError, DataFrameFormatFlavor, FieldSchema, Statistic, Unit
from penstock.alicat._instrument.data_frame import (
    is_format_row,
    is_last_format_row,
    parse_data_frame_format,
)

from .captures import (
    FORMAT_5V12,
    FORMAT_7V09,
    FORMAT_10V04_METER,
    FORMAT_10V20,
    FRAME_5V12,
    FRAME_10V04_METER,
    FRAME_10V20,
)

ALL = [FORMAT_10V20, FORMAT_10V04_METER, FORMAT_7V09, FORMAT_5V12]


def test_default_dialect_names_columns_units_and_codes() -> None:
    fmt = parse_data_frame_format(FORMAT_10V20)
    assert fmt.flavor is DataFrameFormatFlavor.DEFAULT
    assert fmt.field_schema() == (
        FieldSchema("Abs_Press", "float", "PSIA"),
        FieldSchema("Flow_Temp", "float", "°C"),
        FieldSchema("Volu_Flow", "float", "CCM"),
        FieldSchema("Mass_Flow", "float", "SCCM"),
        FieldSchema("Mass_Flow_Setpt", "float", "SCCM"),
        FieldSchema("Gas", "text", None),
    )
    assert [f.statistic for f in fmt.fields] == [
        Statistic.ABS_PRESS,
        Statistic.TEMP_STREAM,
        Statistic.VOL_FLOW,
        Statistic.MASS_FLOW,
        Statistic.MASS_FLOW_SETPT,
        Statistic.FLUID_NAME,
    ]
    assert [f.unit for f in fmt.fields][:2] == [Unit.PSI, Unit.DEG_C]
    assert fmt.status_codes == frozenset(
        [
            "ADC",
            "OPL",
            "POV",
            "P2O",
            "TOV",
            "VOV",
            "MOV",
            "TMF",
            "OVR",
            "COM",
            "HLD",
            "EXH",
            "GTA",
            "LCK",
        ]
    )


def test_legacy_dialect_names_columns_units_ranges_and_codes() -> None:
    fmt = parse_data_frame_format(FORMAT_5V12)
    assert fmt.flavor is DataFrameFormatFlavor.LEGACY
    assert fmt.names() == ("Pressure", "Temperature", "Volumetric", "Mass", "SetPoint", "Gas")
    assert fmt.units()["Temperature"] == "°C"
    assert fmt.fields[0].statistic is Statistic.ABS_PRESS
    setpoint = fmt.setpoint_field
    assert setpoint is not None
    assert (setpoint.minimum, setpoint.maximum) == (0.0, 500.0)
    assert fmt.status_codes == frozenset(["ADC", "LCK", "OVR", "POV", "TOV", "VOV", "MOV"])


def test_meter_has_no_setpoint_column() -> None:
    assert parse_data_frame_format(FORMAT_10V04_METER).setpoint_field is None


@pytest.mark.parametrize(
    ("table", "frame", "value"),
    [
        (FORMAT_10V20, FRAME_10V20, {"Mass_Flow_Setpt": 78.95, "Gas": "N2"}),
        (FORMAT_10V04_METER, FRAME_10V04_METER, {"Mass_Flow": -0.034, "Gas": "Air"}),
        (FORMAT_5V12, FRAME_5V12, {"SetPoint": 116.3, "Gas": "N2", "Mass": 0.2}),
    ],
)
def test_captured_frame_fits_its_captured_format(
    table: list[bytes], frame: bytes, value: dict[str, float | str]
) -> None:
    values = parse_data_frame_format(table).parse(frame).values
    assert {name: values[name] for name in value} == value


@pytest.mark.parametrize("table", ALL)
def test_every_row_is_known_as_one_and_the_last_as_the_last(table: list[bytes]) -> None:
    assert all(is_format_row(row) for row in table)
    assert [is_last_format_row(row) for row in table] == [False] * (len(table) - 1) + [True]


@pytest.mark.parametrize("table", ALL)
def test_table_with_a_lost_row_is_refused(table: list[bytes]) -> None:
    for lost in range(len(table) - 1):
        with pytest.raises(AlicatParseError):
            parse_data_frame_format(table[:lost] + table[lost + 1 :])


def test_backspaces_of_gp_firmware_are_ignored() -> None:
    padded = [row.replace(b" D", b" D", 1) + b"\x08\x08" for row in FORMAT_5V12]
    assert parse_data_frame_format(padded) == parse_data_frame_format(FORMAT_5V12)


def test_columns_of_one_name_get_distinct_ones() -> None:
    table = [row.replace(b"Volu Flow", b"Mass Flow") for row in FORMAT_10V20]
    assert parse_data_frame_format(table).names()[2:4] == ("Mass_Flow", "Mass_Flow_2")


def test_empty_and_foreign_tables_are_refused() -> None:
    for rows in ([], [b"?"], [FRAME_10V20]):
        with pytest.raises(AlicatParseError):
            parse_data_frame_format(rows)


@given(st.lists(st.sampled_from(FORMAT_10V20 + FORMAT_5V12) | st.binary(max_size=80), max_size=30))
def test_any_rows_parse_or_are_refused(rows: list[bytes]) -> None:
    try:
        fmt = parse_data_frame_format(rows)
    except AlicatParseError:
        return
    assert fmt.fields
    assert len(set(fmt.names())) == len(fmt.fields)


def test_rows_that_an_instrument_pads_with_backspaces_are_rows() -> None:
    padded = [line.replace(b"D", b"\x08 D", 1) for line in FORMAT_5V12]
    assert all(is_format_row(line) for line in padded)
    assert parse_data_frame_format(padded) == parse_data_frame_format(FORMAT_5V12)
