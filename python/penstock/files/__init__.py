"""Asynchronous files on Penstock's loop, on other asyncio loops and on trio.

>>> from penstock import files
>>> async with files.open("notes.txt") as notes:
...     async for line in notes:
...         print(line, end="")
"""

from penstock._public_names import claim as _claim
from penstock.files import os as os
from penstock.files import tempfile
from penstock.files._archives.compressed_file import CompressedFile, open_compressed
from penstock.files._archives.tar_archive import TarArchive, open_tar
from penstock.files._archives.zip_archive import ZipArchive, open_zip
from penstock.files._file_objects.aligned_buffer import aligned_buffer
from penstock.files._file_objects.async_file import AsyncFile
from penstock.files._file_objects.binary_file import BinaryFile
from penstock.files._file_objects.mapped_file import MappedFile
from penstock.files._file_objects.mapped_file import map as map
from penstock.files._file_objects.opening import open
from penstock.files._file_objects.standard_streams import (
    stderr,
    stderr_bytes,
    stdin,
    stdin_bytes,
    stdout,
    stdout_bytes,
)
from penstock.files._file_objects.text_file import TextFile
from penstock.files._file_objects.wrapped_file import WrappedFile, wrap
from penstock.files._locks import FileLock, lock
from penstock.files._log.append_log import AppendLog, LogFailed
from penstock.files._log.log_file import LogLocked, Recovered
from penstock.files._log.log_format import LogDamaged, LogError, NotALog
from penstock.files._log.log_reader import follow_log, read_log
from penstock.files._log.log_salvage import LogGap, LogReport, check_log, salvage_log
from penstock.files._log.segmented_log import SegmentedLog
from penstock.files._metadata import (
    access,
    getxattr,
    listxattr,
    removexattr,
    setxattr,
    stat_many,
    statvfs,
    sync_folder,
)
from penstock.files._path_objects.path import Path
from penstock.files._path_objects.removal import rmtree
from penstock.files._path_objects.scanning import FolderEntry, scan
from penstock.files._paths import link, mkdir, rename, replace, rmdir, scandir, stat, unlink
from penstock.files._watching.changes import Change
from penstock.files._watching.watch import Watch, watch
from penstock.files._whole_files.copying import copy
from penstock.files._whole_files.reading import read_file, read_files
from penstock.files._whole_files.writing import write_file

# Without ``os`` and ``map``: ``from penstock.files import *`` must not replace the program's own.
__all__ = [
    "AppendLog",
    "AsyncFile",
    "BinaryFile",
    "Change",
    "CompressedFile",
    "FileLock",
    "FolderEntry",
    "LogDamaged",
    "LogError",
    "LogFailed",
    "LogGap",
    "LogLocked",
    "LogReport",
    "MappedFile",
    "NotALog",
    "Path",
    "Recovered",
    "SegmentedLog",
    "TarArchive",
    "TextFile",
    "Watch",
    "WrappedFile",
    "ZipArchive",
    "access",
    "aligned_buffer",
    "check_log",
    "copy",
    "follow_log",
    "getxattr",
    "link",
    "listxattr",
    "lock",
    "mkdir",
    "open",
    "open_compressed",
    "open_tar",
    "open_zip",
    "read_file",
    "read_files",
    "read_log",
    "removexattr",
    "rename",
    "replace",
    "rmdir",
    "rmtree",
    "salvage_log",
    "scan",
    "scandir",
    "setxattr",
    "stat",
    "stat_many",
    "statvfs",
    "stderr",
    "stderr_bytes",
    "stdin",
    "stdin_bytes",
    "stdout",
    "stdout_bytes",
    "sync_folder",
    "tempfile",
    "unlink",
    "watch",
    "wrap",
    "write_file",
]

_claim(globals())
