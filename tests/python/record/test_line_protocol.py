"""Lines of InfluxDB's protocol: what the native writer makes, and what can be taken from a line."""

from __future__ import annotations

import math
import zlib
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._record import line_rows
from penstock.record import InfluxSink, MqttSink, NatsSink, SampleBatch, SinkWriteError
from penstock.record._network.influx_lines import (
    LineEncoder,
    field_label,
    line_without_field,
    quoted_text,
    series_head,
)
from penstock.record._network.influx_sink import InfluxAddress
from penstock.record._network.server import Secret
from tests.python.record.batches import batch_of, bounded, rows, typed_batch

many_rows = st.lists(rows, min_size=1, max_size=12)


def lines_of(*batches: SampleBatch) -> list[bytes]:
    encoder = LineEncoder("samples", "events")
    for batch in batches:
        encoder.add(batch)
    [(count, payload)] = encoder.take()
    assert count == sum(map(len, batches))
    return zlib.decompress(payload, 31).split(b"\n")[:-1]


def parsed(line: bytes) -> tuple[bytes, dict[str, Any], int]:
    """The head, the fields and the stamp of a line, read character by character."""
    parts: list[bytes] = [b""]
    quoted = escaped = False
    for byte in line:
        character = bytes([byte])
        if escaped:
            escaped = False
        elif character == b"\\":
            escaped = True
        elif character == b'"' and len(parts) > 1:
            quoted = not quoted
        elif not quoted and (character == b" " or (character == b"," and len(parts) > 1)):
            parts.append(b"")
            continue
        parts[-1] += character
    head, *pairs, stamp = parts
    fields: dict[str, Any] = {}
    for pair in pairs:
        name, _, text = pair.partition(b"=")
        if text.startswith(b'"'):
            value: Any = text[1:-1].replace(b'\\"', b'"').replace(b"\\\\", b"\\").decode()
        elif text.endswith(b"i"):
            value = int(text[:-1])
        elif text in (b"t", b"f"):
            value = text == b"t"
        else:
            value = float(text)
        fields[name.decode()] = value
    return head, fields, int(stamp)


@bounded
@given(many_rows)
def test_lines_have_the_values_of_the_rows(drawn: list[dict[str, Any]]) -> None:
    batch = batch_of(drawn)
    lines = lines_of(batch)
    assert len(lines) == len(drawn)
    seen: set[tuple[bytes, int]] = set()
    for line, row in zip(lines, batch, strict=True):
        head, fields, stamp = parsed(line)
        assert head == series_head("samples", row.device)
        seen.add((head, stamp))
        expected: dict[str, Any] = {"t_mono_ns": row.t_mono_ns, "latency_s": row.latency_s}
        for name, value in (
            *row.values.items(),
            ("unit_id", row.unit_id),
            ("status", row.status),
            ("error", row.error),
        ):
            if isinstance(value, str):
                value = value.replace("\n", "\\n").replace("\r", "\\r").replace("\0", "\\0")
            if value not in (None, "") and not (
                isinstance(value, float) and not math.isfinite(value)
            ):
                expected[name] = value
        assert fields == expected
    assert len(seen) == len(drawn)


def test_a_row_without_a_field_is_no_line() -> None:
    heads = ("s", array("i", [0, 0]), None, [b"m"])
    values = ("f", array("d", [math.nan, 2.5]), None, None)
    stamps = ("t", array("q", [1, 2]), None, None)
    assert line_rows([heads, values, stamps], [b"v="], 0, 2) == b"m v=2.5 2\n"
    assert line_rows([heads, stamps], [], 0, 2) == b""


def test_arguments_are_checked() -> None:
    heads = ("s", array("i", [0]), None, [b"m"])
    stamps = ("t", array("q", [1]), None, None)
    with pytest.raises(ValueError, match="first column is text"):
        line_rows([stamps, heads], [], 0, 1)
    with pytest.raises(ValueError, match="0 fields and 1 labels"):
        line_rows([heads, stamps], [b"v="], 0, 1)
    with pytest.raises(TypeError):
        line_rows([heads, stamps, stamps], ["v="], 0, 1)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="shorter than 2 rows"):
        line_rows([heads, stamps], [], 0, 2)


def test_values_of_every_kind() -> None:
    [line, *_] = lines_of(typed_batch())
    assert parsed(line)[1] == {
        "t_mono_ns": 5_000_000,
        "latency_s": 0.005,
        "Flow": 1.5,
        "Count": 2**53 + 1,
        "Open": True,
        "Gas": "N2",
        "Calibrated": 1_795_262_400_250_000_000,
    }


def test_names_are_escaped() -> None:
    assert series_head("a b,c", "d=e f,g\\") == b"a\\ b\\,c,device=d\\=e\\ f\\,g\\."
    assert series_head("samples", "") == b"samples"
    assert field_label("time") == b"field_time="
    assert quoted_text('a "b" \\ c\n') == '"a \\"b\\" \\\\ c\\n"'


@bounded
@given(many_rows, st.sampled_from(["Mass_Flow", "Gas", "t_mono_ns"]))
def test_a_field_is_taken_from_a_line(drawn: list[dict[str, Any]], name: str) -> None:
    for line in lines_of(batch_of(drawn)):
        head, fields, stamp = parsed(line)
        without = line_without_field(line, "samples", name)
        if name not in fields:
            assert without is None
        else:
            assert without is not None
            del fields[name]
            assert parsed(without) == (head, fields, stamp)
        assert line_without_field(line, "sample", name) is None


def test_the_only_field_leaves_nothing() -> None:
    assert line_without_field(b"m,device=a v=1 5", "m", "v") == b""
    assert line_without_field(b"m v=1", "m", "v") == b""
    assert line_without_field(b"m w=1 5", "m", "v") is None
    assert line_without_field(b"", "m", "v") is None


@pytest.mark.parametrize(
    ("url", "target", "shown"),
    [
        ("influx://host/lab", "/write?db=lab", "influx://host:8086/lab"),
        ("influx://h:1/a%2Fb?rp=x y", "/write?db=a%2Fb&rp=x%20y", "influx://h:1/a/b"),
        (
            "influxs://[::1]:9/org/my%20bucket",
            "/api/v2/write?org=org&bucket=my%20bucket&precision=ns",
            "influxs://[::1]:9/org/my bucket",
        ),
        (
            "influx://host/lab?api=3",
            "/api/v3/write_lp?db=lab&precision=nanosecond",
            "influx://host:8086/lab",
        ),
    ],
)
def test_addresses(url: str, target: str, shown: str) -> None:
    address = InfluxAddress.parse(url)
    assert (address.target, str(address)) == (target, shown)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("influx://me:secret@host/lab", "must not contain a user or a password.*INFLUX_TOKEN"),
        ("influx://host/lab?token=secret", "unknown option token"),
        ("influx://host", "not the address of a database"),
        ("influx://host/a/b/c", "not the address of a database"),
        ("influx://host/lab?api=2", "contradicts its options"),
        ("influx://host/org/bucket?rp=x", "contradicts its options"),
        ("influx://host/lab?api=4", "contradicts its options"),
        ("influx://host:x/lab", "no valid host or port"),
        ("influx://host:99999/lab?token=secret", "no valid host or port"),
        ("influx://[::1/secret", "no valid host or port"),
        ("influx://me:se/secret@host/lab", "must not contain a user"),
        ("influx://me:se?secret@host/lab", "must not contain a user"),
        ("influx://me:se\u2100secret@host/lab", "must not contain a user"),
        ("influx:///me:secret@host", "must not contain a user"),
        ("influx://host/?token=secret", "not the address of a database"),
        ("influx://host/a/b/c?token=secret", "not the address of a database"),
        ("influx://host/lab#secret", "after #"),
    ],
)
def test_a_wrong_address_is_refused_without_its_secret(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        InfluxAddress.parse(url)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("device", ["a\\ b", "a\\,b", "a\\=b", "\\\\ ,"])
def test_a_field_is_taken_from_a_line_whose_device_has_backslashes(device: str) -> None:
    line = series_head("samples", device) + b" x=1,y=2 5"
    assert line_without_field(line, "samples", "x") == series_head("samples", device) + b" y=2 5"


@pytest.mark.parametrize(
    ("name", "label"),
    [("a\\ b", b"a\\.\\ b="), ("a\\,", b"a\\.\\,="), ("a\\", b"a\\.="), ("a\\b", b"a\\b=")],
)
def test_a_backslash_escapes_nothing_but_what_it_was_written_for(name: str, label: bytes) -> None:
    assert field_label(name) == label


def test_a_field_without_a_name_gets_one() -> None:
    assert field_label("") == b"field_="


def test_fields_that_are_named_like_renamed_ones_stay_apart() -> None:
    """Of two fields of one name in a line, InfluxDB keeps the last."""
    names = ["time", "field_time", "field_field_time", "", "field_", "field", "field_x"]
    labels = [field_label(name) for name in names]
    assert len(set(labels)) == len(names)
    assert labels[:2] == [b"field_time=", b"field_field_time="]
    assert labels[-2:] == [b"field=", b"field_x="]
    line = b"m field_time=1,field_field_time=2 5"  # as the server names them
    assert line_without_field(line, "m", "field_time") == b"m field_field_time=2 5"


@pytest.mark.parametrize("options", [{"measurement": "#a"}, {"events": "#a"}])
def test_a_measurement_that_would_be_a_comment_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="begin with # as comments"):
        InfluxSink("influx://host/lab", **options)  # type: ignore[arg-type]


SINKS_OF_TLS: tuple[tuple[Any, str], ...] = (
    (InfluxSink, "influxs://host/lab"),
    (MqttSink, "mqtts://host"),
    (NatsSink, "natss://host"),
)


@pytest.mark.parametrize(("text", "reason"), [("", "it holds no"), (None, "No such file")])
def test_a_file_without_certificates_is_refused(
    tmp_path: Path, text: str | None, reason: str
) -> None:
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)
    for sink, url in SINKS_OF_TLS:
        with pytest.raises(ValueError, match=rf"certificates in .*ca\.pem .*{reason}.* as PEM"):
            sink(url, ca_file=path)


def test_a_secret_is_one_line_of_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", " token\r\n")
    assert Secret(None, "TOKEN").read() == "token"
    monkeypatch.setenv("TOKEN", "to\r\nken")
    with pytest.raises(SinkWriteError, match="secret in TOKEN has line ends") as refused:
        Secret(None, "TOKEN").read()
    assert "ken" not in str(refused.value)
    file = tmp_path / "token"
    file.write_bytes("\ufefftoken\n".encode())
    assert Secret(file).read() == "token"
    file.write_bytes(b"to\rken")
    with pytest.raises(SinkWriteError, match="contains no secret"):
        Secret(file).read()
