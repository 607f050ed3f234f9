"""``aiofiles.ospath``."""

from penstock.files.ospath import *  # noqa: F403
