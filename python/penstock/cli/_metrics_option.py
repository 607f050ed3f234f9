"""The option ``--metrics``."""

from __future__ import annotations

import argparse

__all__ = ["metrics_address"]


def metrics_address(text: str) -> str:
    """Check an address of ``--metrics``; the server that it needs is not imported for help."""
    from penstock.cli._metrics_endpoint import check_address

    try:
        check_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text
