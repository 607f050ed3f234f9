"""Content codings: which of them a client accepts, and which content gains by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_GAINS = frozenset(
    {
        "application/atom+xml",
        "application/dash+xml",
        "application/graphql-response+json",
        "application/javascript",
        "application/json",
        "application/ld+json",
        "application/manifest+json",
        "application/problem+json",
        "application/rss+xml",
        "application/vnd.apple.mpegurl",
        "application/wasm",
        "application/x-javascript",
        "application/x-ndjson",
        "application/xhtml+xml",
        "application/xml",
        "font/otf",
        "font/ttf",
        "image/bmp",
        "image/svg+xml",
        "image/vnd.microsoft.icon",
        "image/x-icon",
    }
)


def accepted_codings(headers: Iterable[tuple[bytes, bytes]], available: Sequence[str]) -> list[str]:
    """Return those of the available codings that Accept-Encoding accepts, the preferred one first.

    Codings of one quality keep their order. A coding that is not named is accepted only if "*" is
    (RFC 9110, section 12.5.3). The result does not contain identity.
    """
    qualities: dict[str, float] = {}
    for name, value in headers:
        if name != b"accept-encoding":
            continue
        for entry in value.decode("latin-1").lower().split(","):
            coding, _, parameter = entry.partition(";")
            key, _, text = parameter.strip().partition("=")
            quality = 1.0
            if key.strip() == "q":
                try:
                    quality = float(text)
                except ValueError:
                    quality = 0.0
            qualities[coding.strip().removeprefix("x-")] = quality
    others = qualities.get("*", 0.0)
    found = [(qualities.get(coding, others), coding) for coding in available]
    return [
        coding for quality, coding in sorted(found, key=lambda pair: -pair[0]) if 0 < quality <= 1
    ]


def gains_by_coding(content_type: str) -> bool:
    """Return whether content of this type is worth compressing: text, and other types of _GAINS."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in _GAINS
