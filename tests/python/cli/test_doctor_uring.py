"""``penstock doctor``'s line about io_uring."""

from __future__ import annotations

import pytest

from penstock import uring
from penstock.cli._doctor.command import Status, check_uring
from penstock.uring import Capabilities


@pytest.mark.parametrize(
    ("available", "status"), [(True, Status.FINE), (False, Status.LESS)], ids=str
)
def test_kernels_answer_is_reported(
    monkeypatch: pytest.MonkeyPatch, available: bool, status: Status
) -> None:
    monkeypatch.setattr(uring, "probe", lambda: Capabilities(available, "the kernel's reason"))
    found = check_uring()
    assert (found.name, found.status, found.text) == ("uring", status, "the kernel's reason")
