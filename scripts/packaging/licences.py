"""The licences of what users install beside Penstock, as SPDX expressions.

Of the Python packages they are those that the packages' own metadata state, which a test compares;
of the libraries of Debian those in /usr/share/doc/PACKAGE/copyright.
"""

from __future__ import annotations

PYTHON = {
    "anyio": "MIT",
    "brotli": "MIT",
    "cryptography": "Apache-2.0 OR BSD-3-Clause",
    "duckdb": "MIT",
    "gunicorn": "MIT",
    "h5netcdf": "BSD-3-Clause",
    "h5py": "BSD-3-Clause",
    "isal": "PSF-2.0",
    "matplotlib": "PSF-2.0",
    "numpy": "BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0",
    "obstore": "MIT",
    "psycopg": "LGPL-3.0-only",
    "psycopg-binary": "LGPL-3.0-only",
    "pyarrow": "Apache-2.0",
    "python-socks": "Apache-2.0",
    "rich": "MIT",
    "shtab": "MPL-2.0",
    "starlette": "BSD-3-Clause",
    "trio": "MIT OR Apache-2.0",
    "uvicorn": "BSD-3-Clause",
    "uvloop": "MIT OR Apache-2.0",
    "websockets": "BSD-3-Clause",
    "xlsxwriter": "BSD-2-Clause",
    "zstandard": "BSD-3-Clause",
}

DEBIAN = {
    "libc6-dev": "LGPL-2.1-or-later",
    "libcurl4-openssl-dev": "curl",
    "libssl-dev": "Apache-2.0",
    "libstdc++-12-dev": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "liburing-dev": "MIT",
    "zlib1g-dev": "Zlib",
}
