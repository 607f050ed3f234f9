"""Alarms of a run that reach a web hook once, and what people do with them."""

from __future__ import annotations

import csv
import getpass
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from penstock.cli._errors import CommandError, ExitCode
from penstock.cli._recording.config import parse_config
from penstock.cli._recording.plan import AlarmPlan
from tests.python.documentation.page_steps import DOCS, blocks
from tests.python.integration.webhooks import receiver

pytestmark = pytest.mark.slow

DEVICE = '[[device]]\nname = "argon"\nport = "/dev/ttyUSB0"\n'
KEY = "argon/Abs_Press/1"
USER = getpass.getuser()


def test_the_table_names_who_is_told() -> None:
    text = DEVICE + '[alarm]\nwebhook = "https://h/x"\nsecret_file = "s"\nlatch = true\n'
    plan = parse_config(text.encode(), "run.toml").alarm
    assert plan == AlarmPlan(webhook="https://h/x", secret_file="s", latch=True)
    assert plan.has_book
    with pytest.raises(CommandError, match="did you mean webhook") as refused:
        parse_config((DEVICE + '[alarm]\nwebhok = "https://h/x"\n').encode(), "run.toml")
    assert refused.value.code is ExitCode.CONFIG


def events(folder: Path) -> list[tuple[str, str]]:
    rows: list[dict[str, str]] = []
    for path in sorted((folder / "out").glob("samples*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    return [(row["event"], row["message"]) for row in rows if row["event"].startswith("alarm")]


@pytest.mark.usefixtures("native_loop")
def test_an_alarm_is_told_once_though_the_recorder_is_killed(
    start: Any, penstock: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    (tmp_path / "secret").write_text("of the tests")
    with receiver(b"of the tests") as hook:
        (tmp_path / "run.toml").write_text(
            '[record]\nrate_hz = 20\nout = "out"\nformats = ["csv"]\n'
            f'[alarm]\nwebhook = "{hook.url}"\nsecret_file = "secret"\nlatch = true\n'
            f'[[device]]\nname = "argon"\nport = "{port}"\nbaudrate = 115200\ntimeout = 10\n'
            '[[device.limit]]\nfield = "Abs_Press"\nhigh = 1\n'
        )
        running = start("record", "run.toml", "--no-plot")
        [begun] = hook.wait_for(1)
        done = penstock("alarm", "out", "--json")
        assert (done.returncode, done.stderr) == (0, "")
        [listed] = json.loads(done.stdout)
        assert (listed["alarm"], listed["state"]) == (KEY, "unacknowledged")
        running.process.kill()
        running.process.wait()

        running = start("record", "run.toml", "--no-plot", "--resume")
        running.wait_for("ALARM")
        done = penstock("alarm", "out", "acknowledge", KEY, "--author", "Ann")
        assert done.stdout == f"acknowledge in out: Ann ({USER}): {KEY}\n"
        done = penstock("alarm", "out", "acknowledge", KEY)
        assert (done.returncode, "nothing to acknowledge" in done.stderr) == (2, True)
        done = penstock("alarm", "out", "shelve", KEY, "--seconds", "60")
        assert done.returncode == 0
        done = penstock("alarm", "out", "reset", KEY)
        assert (done.returncode, "wait until it is inside" in done.stderr) == (2, True)
        assert penstock("alarm", "out").stdout.startswith(f"{KEY}  acknowledged, shelved  ")
        hook.wait_for_kinds(3)
        running.process.send_signal(signal.SIGTERM)
        assert running.finish()[0] == 143
        # A kill between an answer and its note brings an event twice, under one identity.
        kinds = {identity: body["type"] for identity, body in hook.got}
        assert kinds[begun] == "alarm.begin"
        assert list(kinds.values()) == ["alarm.begin", "alarm.acknowledge", "alarm.shelve"]
    found = events(tmp_path)
    assert [kind for kind, _ in found].count("alarm_acknowledged") == 1
    assert ("alarm_shelved", f"{USER}: {KEY} for 60 s") in found
    assert penstock("alarm", "out").returncode == 5


@pytest.mark.usefixtures("native_loop")
def test_a_run_that_a_signal_ends_tries_its_alarms_once_more(
    start: Any, penstock: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    (tmp_path / "secret").write_text("of the tests")
    with receiver(b"of the tests") as hook:
        hook.answers = [503]  # after which the next attempt is seconds away
        (tmp_path / "run.toml").write_text(
            '[record]\nrate_hz = 20\nout = "out"\nformats = ["csv"]\n'
            f'[alarm]\nwebhook = "{hook.url}"\nsecret_file = "secret"\n'
            f'[[device]]\nname = "argon"\nport = "{port}"\nbaudrate = 115200\ntimeout = 10\n'
            '[[device.limit]]\nfield = "Abs_Press"\nhigh = 1\n'
        )
        running = start("record", "run.toml", "--no-plot")
        hook.wait_for(1)
        second = tmp_path / "second.toml"
        text = (tmp_path / "run.toml").read_text().replace('out = "out"', 'out = "other"')
        second.write_text(text.replace("[alarm]\n", '[alarm]\nbook = "out/alarms.json"\n'))
        refused = penstock("record", "second.toml", "--no-plot")
        assert refused.returncode == 5
        assert "[alarm] book: the alarm book out/alarms.json is in use by another" in refused.stderr
        running.process.send_signal(signal.SIGTERM)
        assert running.finish()[0] == 143
        assert len(set(hook.wait_for(2))) == 1
    assert not (tmp_path / "out" / "alarms.json-lock").exists()
    assert not (tmp_path / "other").exists()


@pytest.mark.usefixtures("native_loop")
def test_a_run_without_a_book_says_so(
    start: Any, penstock: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    (tmp_path / "run.toml").write_text(
        '[record]\nrate_hz = 20\nout = "out"\nformats = ["csv"]\n'
        f'[[device]]\nname = "argon"\nport = "{port}"\nbaudrate = 115200\ntimeout = 10\n'
    )
    start("record", "run.toml", "--no-plot").wait_for("argon.*SCCM")
    done = penstock("alarm", "out")
    assert (done.returncode, "give [alarm] a webhook, mqtt or a book" in done.stderr) == (2, True)


def test_a_missing_secret_ends_the_run_before_it_begins(penstock: Any, tmp_path: Path) -> None:
    text = DEVICE + '[alarm]\nwebhook = "https://lab.example/x"\nsecret_file = "none"\n'
    (tmp_path / "run.toml").write_text(text)
    for option in ("--no-plot", "--check"):
        done = penstock("record", "run.toml", option)
        assert (done.returncode, "the secret in none cannot be read" in done.stderr) == (3, True)


def test_the_file_of_the_page_is_one() -> None:
    found = [each.text for each in blocks(DOCS / "alarms.md") if each.language == "toml"]
    plan = parse_config(found[0].encode(), "run.toml").alarm
    assert plan is not None and plan.webhook == "https://alerts.lab.example/penstock"
