"""An S3-compatible store for the tests: moto's, in a thread of the test."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["moto_server"]


@contextmanager
def moto_server() -> Iterator[dict[str, str]]:
    """A store with the bucket ``lab``; what its clients need in the environment.

    It keeps everything in memory and trusts everybody: whoever kills a store, or asks who may do
    what, takes :func:`tests.python.integration.seaweedfs.s3_server`.
    """
    module = pytest.importorskip(
        "moto.server", reason="no moto in this environment (dependency group s3-test)"
    )
    server = module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        address = f"http://{host}:{port}"
        bucket = urllib.request.Request(f"{address}/lab", method="PUT")
        with urllib.request.urlopen(bucket, timeout=60):
            pass
        yield {
            "AWS_ACCESS_KEY_ID": "penstock",
            "AWS_SECRET_ACCESS_KEY": "penstock-secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": address,
        }
    finally:
        server.stop()
