"""``aiofiles.threadpool``."""

from penstock.files import open, wrap

__all__ = ["open", "wrap"]
