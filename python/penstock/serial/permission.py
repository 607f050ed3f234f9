"""The remedy for a user who may not open a port."""

from __future__ import annotations

import grp
import os
import pwd
import stat

__all__ = ["permission_remedy"]

_USUAL_GROUP = "dialout"  # Debian's; an existing device has its own (Arch: uucp)


def permission_remedy(path: str | None) -> str:
    """Return what lets the current user open ``path``: a group to join, or how to open it to one.

    Joining a group helps only where the device's group may write to it, and is not root's.
    """
    try:
        info = os.stat(path) if path is not None else None
    except OSError:
        info = None
    if info is None:
        return _join(_USUAL_GROUP)
    group = _group_name(info.st_gid)
    if info.st_gid == 0 or not info.st_mode & stat.S_IWGRP or group == "tty":
        return (
            f"it belongs to {_user_name(info.st_uid)}:{group} with mode "
            f"{stat.S_IMODE(info.st_mode):04o}, so no group helps; run sudo chgrp {_USUAL_GROUP} "
            f"{path} && sudo chmod 660 {path}, or write a udev rule that does so, and be in the "
            f"group {_USUAL_GROUP}"
        )
    if info.st_gid not in os.getgroups() and _is_member(group):
        return f"you are in the group {group} since your last login: log in again"
    return _join(group)


def _join(group: str) -> str:
    return f"add yourself to the group {group} (sudo usermod -aG {group} $USER) and log in again"


def _is_member(group: str) -> bool:
    try:
        return pwd.getpwuid(os.getuid()).pw_name in grp.getgrnam(group).gr_mem
    except KeyError:
        return False


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
