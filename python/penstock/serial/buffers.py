"""The type of whatever can be sent: any object with the buffer interface."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 12):
    from collections.abc import Buffer as BytesLike
else:
    from typing_extensions import Buffer as BytesLike  # comes with anyio

__all__ = ["BytesLike"]
