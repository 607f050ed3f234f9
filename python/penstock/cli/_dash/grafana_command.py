"""``penstock grafana``: the fields of a recording as a dashboard, with provisioning files."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.cli._dash.grafana_dashboard import ShownField, dashboard
from penstock.cli._dash.grafana_sources import SOURCES, THIS_MACHINE, UID, DataSource
from penstock.cli._errors import CommandError, ExitCode, explain_os_error
from penstock.cli._recording.config import load_config
from penstock.cli._stored.reading import name_of, read_parts
from penstock.record.arrow import measured_numbers, units_of


def run_grafana(options: argparse.Namespace) -> int:
    """Write the folder ``options.out`` for the fields of ``options.file``."""
    fields = _fields(options)
    source = SOURCES[options.source](options.table)
    files = {
        "dashboards/penstock.json": json.dumps(
            dashboard(options.title, fields, source), indent=2, ensure_ascii=False
        )
        + "\n",
        "provisioning/datasources/penstock.yaml": datasource_file(source),
        "provisioning/dashboards/penstock.yaml": dashboards_file(),
        "compose.yaml": compose_file(source),
    }
    out = Path(options.out)
    try:
        out.mkdir(parents=True)
        for name, text in files.items():
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except FileExistsError as error:
        raise CommandError(
            f"{out} already exists; choose another folder, or remove it", ExitCode.OUTPUT
        ) from error
    except OSError as error:
        raise explain_os_error(error, out, kind="folder", option="DIR") from error
    print(f"wrote {out}: a dashboard with {len(fields)} panels")
    given = " ".join(f"{name}=..." for name in ("GRAFANA_PASSWORD", *_secrets(source)))
    print(f"  cd {shlex.quote(str(out))} && {given} docker compose up, then http://127.0.0.1:3000")
    return ExitCode.OK


def _fields(options: argparse.Namespace) -> list[ShownField]:
    """The numbers that were measured, with their units and limits."""
    units: dict[str, str | dict[str, str]] = {}
    names: dict[str, None] = {}
    for part in read_parts(options.file, options.table, needs=("device", "t_utc"), pieces=True):
        names |= dict.fromkeys(measured_numbers(part.table.schema))
        units |= units_of(part.table.schema)
    if not names:
        raise CommandError(
            f"{name_of(options.file, options.table)} has no measured numbers to show",
            ExitCode.OUTPUT,
        )
    lows: dict[str, list[float]] = {}
    highs: dict[str, list[float]] = {}
    for device in load_config(options.limits).devices if options.limits is not None else ():
        for limit in device.limits:
            if limit.low is not None:
                lows.setdefault(limit.field, []).append(limit.low)
            if limit.high is not None:
                highs.setdefault(limit.field, []).append(limit.high)
    found = []
    for name in names:
        unit = units.get(name)
        found.append(
            ShownField(
                name,
                unit if isinstance(unit, str) else None,
                tuple(unit.items()) if isinstance(unit, dict) else (),
                max(lows[name]) if name in lows else None,
                min(highs[name]) if name in highs else None,
            )
        )
    return found


# Grafana's provisioning files, and a compose file that mounts them.


def datasource_file(source: DataSource) -> str:
    """``provisioning/datasources/penstock.yaml``; secrets come from Grafana's environment."""
    entry: dict[str, Any] = {
        "name": "Penstock",
        "uid": UID,
        "type": source.kind,
        "access": "proxy",
        **source.settings,
        "isDefault": True,
        "editable": False,
    }
    if source.secrets:
        entry["secureJsonData"] = source.secrets
    return (
        _head("The data source: correct the address; secrets are in the environment.")
        + f"# {THIS_MACHINE} is the machine of the container, as compose.yaml names it.\n"
        "apiVersion: 1\ndatasources:\n  - "
        + _block(entry, "    ").lstrip()
        + "".join(f"# {line}\n" for line in source.note)
    )


def dashboards_file() -> str:
    """``provisioning/dashboards/penstock.yaml``."""
    entry = {
        "name": "penstock",
        "type": "file",
        "allowUiUpdates": True,
        "options": {"path": "/var/lib/grafana/dashboards"},
    }
    return _head("Where Grafana finds the dashboards.") + (
        "apiVersion: 1\nproviders:\n  - " + _block(entry, "    ").lstrip()
    )


def compose_file(source: DataSource) -> str:
    """``compose.yaml``: Grafana with these files, on port 3000 of this machine alone."""
    lines = [
        "services:",
        "  grafana:",
        "    image: grafana/grafana-oss:11.6.0",
        "    ports:",
        '      - "127.0.0.1:3000:3000"',
        "    extra_hosts:",
        f'      - "{THIS_MACHINE}:host-gateway"',
        "    environment:",
        "      GF_SECURITY_ADMIN_PASSWORD: ${GRAFANA_PASSWORD:?set GRAFANA_PASSWORD}",
        *(f"      {name}: ${{{name}:-}}" for name in _variables(source)),
        "    volumes:",
        "      - ./provisioning:/etc/grafana/provisioning:ro",
        "      - ./dashboards:/var/lib/grafana/dashboards:ro",
    ]
    return _head("Grafana alone; the data source is yours.") + "\n".join(lines) + "\n"


def _secrets(source: DataSource) -> list[str]:
    """What Grafana's environment has for the data source."""
    return [text.removeprefix("$") for text in source.secrets.values()]


def _variables(source: DataSource) -> list[str]:
    """Those, and what it has in place of them for other versions."""
    return [*_secrets(source), *re.findall(r"\$([A-Z_]+)", " ".join(source.note))]


def _head(text: str) -> str:
    return f"# Written by penstock grafana. {text}\n"


def _block(entries: Mapping[str, Any], indent: str) -> str:
    """A mapping as a block of YAML; values are JSON, which YAML contains."""
    lines = []
    for key, value in entries.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{key}:", _block(value, indent + "  ").rstrip("\n")]
        else:
            lines.append(f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"
