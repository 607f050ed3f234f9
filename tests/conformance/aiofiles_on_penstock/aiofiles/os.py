"""``aiofiles.os``."""

from penstock.files.os import *  # noqa: F403
from penstock.files.os import path as path
