"""One mapping of the kernel's errors, the same for every call."""

from __future__ import annotations

import errno
import pickle
import termios

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.serial import (
    PortBusyError,
    PortNotFoundError,
    PortPermissionError,
    SerialClosedError,
    SerialDisconnectedError,
    SerialError,
    UnsupportedFeatureError,
)
from penstock.serial.exceptions import ErrorContext, errno_to_exception

CONTEXTS: list[ErrorContext] = ["open", "lock", "ioctl", "io"]


@given(
    code=st.sampled_from(sorted(errno.errorcode)),
    context=st.sampled_from(CONTEXTS),
    from_termios=st.booleans(),
)
def test_every_errno_maps_to_a_serial_error_that_names_the_port(
    code: int, context: ErrorContext, from_termios: bool
) -> None:
    source = termios.error(code, "why") if from_termios else OSError(code, "why")
    error = errno_to_exception(source, context=context, path="/dev/ttyUSB7")
    assert isinstance(error, SerialError)
    assert isinstance(error, OSError)
    assert error.filename == "/dev/ttyUSB7"
    assert "/dev/ttyUSB7" in str(error)
    assert error.__cause__ is source
    assert type(pickle.loads(pickle.dumps(error))) is type(error)


@pytest.mark.parametrize("context", CONTEXTS)
def test_error_without_a_path_uses_the_kernels_file_name(context: ErrorContext) -> None:
    for name in ("/dev/ttyUSB7", b"/dev/ttyUSB7"):
        source = OSError(errno.ENXIO, "why", name)
        error = errno_to_exception(source, context=context)
        assert error.filename == "/dev/ttyUSB7"
        assert "/dev/ttyUSB7" in str(error)
        assert error.__cause__ is source


@pytest.mark.parametrize("source", [OSError(5, "why", 7), OSError("no number"), termios.error()])
def test_error_without_a_file_name_mentions_the_serial_port(
    source: OSError | termios.error,
) -> None:
    error = errno_to_exception(source, context="io")
    assert "the serial port" in str(error)
    assert error.__cause__ is source


@pytest.mark.parametrize(
    "code",
    [errno.EIO, errno.ENODEV, errno.ENXIO, errno.EPIPE, errno.ECONNRESET, errno.ESHUTDOWN],
)
@pytest.mark.parametrize("context", ["lock", "ioctl", "io"])
def test_removed_device_is_disconnected_in_every_context(code: int, context: ErrorContext) -> None:
    error = errno_to_exception(OSError(code, ""), context=context, path="p")
    assert type(error) is SerialDisconnectedError
    assert isinstance(error, anyio.BrokenResourceError)


@pytest.mark.parametrize("code", [errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.EIO])
def test_absent_device_is_not_found_while_opening(code: int) -> None:
    error = errno_to_exception(OSError(code, ""), context="open", path="p")
    assert type(error) is PortNotFoundError
    assert isinstance(error, FileNotFoundError)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_refused_open_is_a_permission_error_that_names_the_group(code: int) -> None:
    error = errno_to_exception(OSError(code, ""), context="open", path="/nowhere")
    assert type(error) is PortPermissionError
    assert isinstance(error, PermissionError)
    assert not isinstance(error, PortBusyError)
    assert "dialout" in str(error)
    assert "usermod" in str(error)


def test_busy_errno_raises_port_busy() -> None:
    error = errno_to_exception(OSError(errno.EBUSY, ""), context="open", path="p")
    assert type(error) is PortBusyError


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTTY, errno.ENOSYS])
def test_missing_ioctl_of_a_driver_raises_unsupported_feature(code: int) -> None:
    error = errno_to_exception(OSError(code, ""), context="ioctl", path="p")
    assert type(error) is UnsupportedFeatureError
    assert isinstance(error, NotImplementedError)


def test_serial_error_passes_unchanged() -> None:
    error = SerialClosedError(errno.EBADF, "closed", "p")
    assert errno_to_exception(error, context="io") is error
    assert isinstance(error, anyio.ClosedResourceError)
