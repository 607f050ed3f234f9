"""Grafana's provisioning files, and a compose file that mounts them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.cli._grafana.dashboard import UID
from penstock.cli._grafana.sources import DataSource

__all__ = ["compose_file", "dashboards_file", "datasource_file"]


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
    return _head("The data source: correct the address; secrets are in the environment.") + (
        "apiVersion: 1\ndatasources:\n  - " + _block(entry, "    ").lstrip()
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
        "    environment:",
        "      GF_SECURITY_ADMIN_PASSWORD: ${GRAFANA_PASSWORD:?set GRAFANA_PASSWORD}",
        *(f"      {value[1:]}: ${{{value[1:]}:-}}" for value in source.secrets.values()),
        "    volumes:",
        "      - ./provisioning:/etc/grafana/provisioning:ro",
        "      - ./dashboards:/var/lib/grafana/dashboards:ro",
    ]
    return _head("Grafana alone; the data source is yours.") + "\n".join(lines) + "\n"


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
