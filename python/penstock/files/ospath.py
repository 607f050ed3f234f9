"""Functions of :mod:`os.path` on the file system, made asynchronous, under their own names."""

from __future__ import annotations

from os import path

from penstock.files._on_worker import on_worker

__all__ = [
    "abspath",
    "exists",
    "getatime",
    "getctime",
    "getmtime",
    "getsize",
    "isdir",
    "isfile",
    "islink",
    "ismount",
    "samefile",
    "sameopenfile",
]

abspath = on_worker(path.abspath)
exists = on_worker(path.exists)
getatime = on_worker(path.getatime)
getctime = on_worker(path.getctime)
getmtime = on_worker(path.getmtime)
getsize = on_worker(path.getsize)
isdir = on_worker(path.isdir)
isfile = on_worker(path.isfile)
islink = on_worker(path.islink)
ismount = on_worker(path.ismount)
samefile = on_worker(path.samefile)
sameopenfile = on_worker(path.sameopenfile)
