"""What an address is: the scheme of a URL tells, in capitals too (RFC 3986, section 3.1).

Recordings, sinks and archives are named by a path or by a URL, and whatever asks which of them a
text is, asks here. A URL may hold a password, so no error shows one.
"""

from __future__ import annotations

import re

__all__ = ["plain_url", "refuse_url", "scheme_of"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def scheme_of(target: str) -> str:
    """The scheme of a URL in lower case; empty for what is no URL, such as a path."""
    found = _SCHEME.match(target)
    return found[1].lower() if found else ""


def plain_url(url: str) -> str:
    """The same URL with its scheme in lower case; libpq knows no other. A path stays as it is."""
    scheme = scheme_of(url)
    return scheme + url[len(scheme) :]


def refuse_url(target: str, meant: str) -> None:
    """Refuse a URL; ValueError, without the URL.

    Args:
        target: a path, or a URL of a kind that is of no use here.
        meant: what is of use, as the end of the sentence: "name a file".
    """
    if scheme := scheme_of(target):
        raise ValueError(f"{scheme}:// is the address of something else: {meant}")
