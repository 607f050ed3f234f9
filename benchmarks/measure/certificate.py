"""A certificate for the servers of the TLS pages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks.measure.native import BuildFailed


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate on P-256 and its key, as PEM files.

    Raises:
        BuildFailed: if the openssl command is missing or fails.
    """
    if shutil.which("openssl") is None:
        raise BuildFailed("the openssl command is not installed; scripts/setup bench installs it")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} failed:\n{result.stderr}")
    return certificate, key
