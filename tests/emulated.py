"""A pytest plugin for tests on the emulated machine: those that it cannot run are skipped.

usage: scripts/emulated /venv/bin/python -m pytest -p tests.emulated ...

Property tests run fewer examples, because emulated code takes ten times longer.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import hypothesis
import pytest

CANNOT = {
    "QEMU has no io_uring": ["loop/test_exit_with_threads.py::*_is_in_a_ring*"],
    "QEMU has no seccomp filters": [
        "loop/test_accept_faults.py::*",
        "serial/test_pending_ioctl.py::test_blocked_ioctl_ends_when_it_is_cancelled*",
    ],
    "QEMU has no ptrace, so strace does not run": [
        "record/test_crashes.py::test_a_disk_that_fails_from_some_call_on_*",
        "record/test_crashes.py::test_a_kill_in_a_system_call_of_sqlite_*",
        "record/test_crashes.py::test_rows_are_synced_within_the_window_*",
        "serial/test_system_calls.py::*",
    ],
    "QEMU has no TIOCGEXCL, by which the test sees that a tty is exclusive": [
        "serial/test_any_moment.py::test_opening_and_closing_may_be_cancelled_at_each_step*",
        "serial/test_configuring.py::test_exclusivity_can_be_switched_at_any_time*",
        "serial/test_configuring.py::test_late_failure_undoes_every_step*",
        "serial/test_exclusive.py::test_kernels_exclusive_flag_is_set_and_cleared*",
        "serial/test_exclusive.py::test_pty_of_a_killed_holder_can_be_opened_again*",
        "serial/test_known_bugs.py::test_6_every_setting_can_be_changed_*",
        "serial/test_known_bugs.py::test_11_port_is_exclusive_*",
        "serial/test_native_cancelling.py::test_port_is_closed_and_restored_after_*",
        "serial/test_opening.py::test_failed_open_leaves_nothing_behind*",
        "serial/test_opening.py::test_port_opened_for_a_cancelled_task_is_closed*",
    ],
    "QEMU has no TIOCSBRK": [
        "serial/test_disconnecting.py::*send_break?",
        "serial/test_sync.py::test_every_call_on_an_unplugged_*send_break?",
    ],
    "QEMU ignores RLIMIT_AS": ["loop/test_memory_exhaustion.py::*"],
    "the user namespace of the machine has one user, and may not send kernel messages": [
        "record/test_csv_sink.py::test_an_unwritable_folder_is_named_*",
        "serial/test_opening.py::test_missing_permission_is_reported_*",
        "serial/test_reconnecting.py::test_kernel_message_ends_a_long_delay*",
        "serial/test_watching.py::test_netlink_message_is_received_completely*",
        "serial/test_watching.py::test_port_announced_over_netlink_is_reported*",
    ],
    "so many starts of an emulated interpreter take longer than the limit of the test": [
        "record/test_crashes.py::test_a_kill_in_a_call_that_changes_a_file_*run.parquet?",
    ],
}
"""What the machine lacks, and the tests that need it: patterns of node IDs below tests/python."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Set the number of examples, after conftest.py has loaded its profile."""
    hypothesis.settings.register_profile(
        "emulated", parent=hypothesis.settings.default, max_examples=20
    )
    hypothesis.settings.load_profile("emulated")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip here, before the test's own marks say that a program is not installed."""
    name = item.nodeid.removeprefix("tests/python/")
    for reason, patterns in CANNOT.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            pytest.skip(f"emulation: {reason}")
