"""Listings of a store that do not end where they should: a server that answers by a script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from penstock.record.archives import ArchiveError, Store, store_at

pytest.importorskip("obstore")

_CONTENTS = (
    "<Contents><Key>archive/{}</Key><LastModified>2026-11-21T12:00:00.000Z</LastModified>"
    "<ETag>&quot;1&quot;</ETag><Size>1</Size></Contents>"
)

Page = Callable[[dict[str, str], int], tuple[list[str], str | None]]
"""The names of a page, and the token of the next one, by the request and its number."""


class _Listing(BaseHTTPRequestHandler):
    server: _Lister

    def do_GET(self) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        self.server.requests += 1
        names, token = self.server.page(asked, self.server.requests)
        following = "" if token is None else f"<NextContinuationToken>{token}"
        following += "" if token is None else "</NextContinuationToken>"
        text = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>lab</Name>'
            f"<IsTruncated>true</IsTruncated>{following}"
            f"{''.join(map(_CONTENTS.format, names))}</ListBucketResult>"
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


class _Lister(ThreadingHTTPServer):
    def __init__(self, page: Page) -> None:
        super().__init__(("127.0.0.1", 0), _Listing)
        self.page = page
        self.requests = 0


@contextmanager
def listed_by(page: Page, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with _Lister(page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "penstock")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "penstock-secret")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        try:
            yield store_at("s3://lab/archive")
        finally:
            server.shutdown()
            thread.join()


def test_a_page_that_names_no_next_one_is_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest behind it would be taken for one that is not there."""

    def page(asked: dict[str, str], number: int) -> tuple[list[str], str | None]:
        after = asked.get("start-after", "").removeprefix("archive/")
        return [name for name in ("a", "b", "c") if name > after][:1], None

    with listed_by(page, monkeypatch) as store:
        assert [each.name for each in store.list("")] == ["a", "b", "c"]


def test_a_store_that_knows_no_place_to_begin_is_listed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def page(asked: dict[str, str], number: int) -> tuple[list[str], str | None]:
        return ["a", "b"], None

    with listed_by(page, monkeypatch) as store:
        assert [each.name for each in store.list("")] == ["a", "b"]


def test_a_page_that_comes_again_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def page(asked: dict[str, str], number: int) -> tuple[list[str], str | None]:
        return ["a", "b"], "same" if number < 60 else None

    with (
        listed_by(page, monkeypatch) as store,
        pytest.raises(ArchiveError, match=r"of s3://lab/archive/x/ does not end: it names a again"),
    ):
        store.list("x/")


def test_pages_without_objects_that_do_not_end_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def page(asked: dict[str, str], number: int) -> tuple[list[str], str | None]:
        return [], f"{number}" if number < 20_000 else None

    monkeypatch.setattr(
        "penstock.record.archives.stores._LONGEST_QUIET", timedelta(seconds=0.3), raising=False
    )
    with (
        listed_by(page, monkeypatch) as store,
        pytest.raises(ArchiveError, match=r"does not end: 0 objects, and no further one for 0\.3 "),
    ):
        store.list("")
