"""``penstock doctor``: one line per part, and an exit code."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable
from typing import Any, cast

import pytest

from penstock.cli._doctor import command as doctor
from penstock.cli._doctor.command import Finding, Status
from penstock.cli._interrupts import Interrupts

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def run(monkeypatch: pytest.MonkeyPatch, *checks: Callable[[], Any], as_json: bool = False) -> int:
    """Run the command with only these checks."""
    for number, check in enumerate(checks):
        monkeypatch.setattr(doctor, f"check_{number}", check, raising=False)
    names = [f"penstock.cli._doctor.command:check_{number}" for number in range(len(checks))]
    monkeypatch.setattr(doctor, "CHECKS", names)
    return doctor.run_doctor(argparse.Namespace(json=as_json), cast(Interrupts, None))


def test_every_check_prints_one_line_and_json_agrees(penstock: Command) -> None:
    text, data = penstock("doctor"), penstock("doctor", "--json")
    assert (text.returncode, data.returncode) == (0, 0), text.stdout + text.stderr
    findings = json.loads(data.stdout)["checks"]
    assert len(text.stdout.splitlines()) == len(findings) >= len(doctor.CHECKS)
    for line, finding in zip(text.stdout.splitlines(), findings, strict=True):
        assert line.split()[0] == finding["name"]
        assert line.endswith(finding["text"])


def test_broken_finding_fails_the_command_and_other_checks_still_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(
        monkeypatch,
        lambda: Finding("tape", Status.BROKEN, "no drive; connect one"),
        lambda: [Finding("disk", Status.FINE, "spins"), Finding("ring", Status.LESS, "is small")],
    )
    assert code == 7
    assert capsys.readouterr().out.splitlines() == [
        "tape  broken: no drive; connect one",
        "disk  spins",
        "ring  less: is small",
    ]


def test_less_finding_is_not_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, lambda: Finding("a", Status.LESS, "b"), as_json=True) == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert checks == [{"name": "a", "status": "less", "text": "b"}]


def test_failing_check_is_reported_as_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks() -> Finding:
        raise KeyError("unforeseen")

    assert run(monkeypatch, breaks) == 7
    assert "the check itself failed: 'unforeseen'" in capsys.readouterr().out
