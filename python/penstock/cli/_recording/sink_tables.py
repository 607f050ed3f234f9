"""The servers of a run: the ``[[sink]]`` tables of its file, and ``--to`` of the command line."""

from __future__ import annotations

from penstock.cli._errors import CommandError, ExitCode
from penstock.cli._recording.plan import SinkPlan
from penstock.cli._toml_table import Table

__all__ = ["sink_of_option", "sink_plan"]

_INFLUX = ("measurement", "events", "token_file", "ca_file", "spool")
_MQTT = ("password_file", "ca_file", "spool")
_NATS = ("stream", "token_file", "ca_file", "spool")
_POSTGRES = ("table", "spool")
_OPTIONS: dict[str, tuple[str, ...]] = {
    "influx": _INFLUX,
    "influxs": _INFLUX,
    "mqtt": _MQTT,
    "mqtts": _MQTT,
    "sparkplug": _MQTT,
    "sparkplugs": _MQTT,
    "nats": _NATS,
    "natss": _NATS,
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
}
_EXAMPLE = '"influx://lab-server:8086/lab"'


def sink_plan(table: Table) -> SinkPlan:
    """The plan of a ``[[sink]]`` table."""
    url = table.text("url", f"the address of a server, such as {_EXAMPLE}")
    scheme = url.partition("://")[0].lower()
    if scheme not in _OPTIONS:
        raise CommandError(
            f"{table.file}: {table.label}: the url is of no known kind; {_known()}", ExitCode.CONFIG
        )
    table.refuse_unknown(("url", *_OPTIONS[scheme]))
    options = {
        name: table.text(name, "a name") for name in _OPTIONS[scheme] if name in table.entries
    }
    plan = SinkPlan(url, options)
    if (wrong := _wrong(plan)) is not None:
        # Without the value: it may hold a password.
        raise CommandError(f"{table.file}: {table.label}: {wrong}", ExitCode.CONFIG)
    return plan


def sink_of_option(url: str) -> SinkPlan:
    """The plan of ``--to URL``."""
    plan = SinkPlan(url)
    if url.partition("://")[0].lower() not in _OPTIONS:
        raise CommandError(f"--to has a URL of no known kind; {_known()}", ExitCode.USAGE)
    if (wrong := _wrong(plan)) is not None:
        raise CommandError(f"--to: {wrong}", ExitCode.USAGE)
    return plan


def _wrong(plan: SinkPlan) -> str | None:
    """Why there can be no sink of this plan."""
    from penstock.record.sink_choice import check_url

    try:
        check_url(plan.url)
    except ValueError as error:
        return str(error)
    return None


def _known() -> str:
    return f"write one of {', '.join(f'{scheme}://' for scheme in _OPTIONS)}, such as {_EXAMPLE}"
