"""Builds the documentation site: ``scripts/site/build.py [OUTPUT]``, by default build/docs.

A warning of Sphinx is an error: a broken link, a missing anchor, a docstring that cannot be read.
Afterwards the site is checked: it loads nothing from elsewhere, its reference has every public name
and no other, and no page prints the name of a private module or type.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "python")]

import checks  # noqa: E402
import cpp_reference  # noqa: E402
import pages  # noqa: E402
import python_reference  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402
from sphinx.domains.python import PythonDomain  # noqa: E402

REFERENCE = """
## API reference

- [Python](reference/python/index.md): every public name of the package `penstock`
- [C++](reference/cpp/index.md): every public declaration of the headers
"""


def described_names(application: Sphinx) -> set[str]:
    """The names of the Python reference, without modules."""
    domain = application.env.domains["py"]
    assert isinstance(domain, PythonDomain)
    return {
        name
        for name, entry in domain.objects.items()
        if entry.objtype != "module" and not entry.aliased
    }


def build(output: Path) -> list[str]:
    """Build the site in ``output``; return what is wrong with it."""
    sources = output.with_name(f"{output.name}-sources")
    for folder in (sources, output):
        shutil.rmtree(folder, ignore_errors=True)
    sources.mkdir(parents=True)
    python_reference.write(sources)
    declared = cpp_reference.write(ROOT, sources)
    pages.Staging(ROOT, sources, REFERENCE).run()
    application = Sphinx(
        srcdir=sources,
        confdir=Path(__file__).parent,
        outdir=output,
        doctreedir=sources / ".doctrees",
        buildername="html",
        warningiserror=True,
        status=None,
        parallel=2,
    )
    application.build()
    entries = python_reference.entries()
    public = {entry.full_name for entry in entries if entry.is_described_here}
    described = described_names(application)
    return [
        *(f"loaded from elsewhere: {each}" for each in checks.loads_from_elsewhere(output)),
        *(f"a private name is printed: {each}" for each in checks.private_names(output)),
        *(f"not in the reference: {name}" for name in checks.missing_names(described, public)),
        *(f"not public: {name}" for name in checks.foreign_names(described, public)),
        *(
            f"not in the C++ reference: {name}"
            for name in checks.missing_names(
                {declaration.name.rpartition("::")[2] for declaration in declared},
                checks.names_in_headers(cpp_reference.public_headers(ROOT / "include")),
            )
        ),
        *([f"{application._warncount} warnings"] if application._warncount else []),
    ]


def main() -> int:
    started = time.monotonic()
    output = (ROOT / (sys.argv[1] if len(sys.argv) > 1 else "build/docs")).resolve()
    try:
        wrong = build(output)
    except (pages.BrokenLinkError, cpp_reference.UnreadableHeaderError) as error:
        wrong = [str(error)]
    for line in wrong:
        print(f"docs: {line}", file=sys.stderr)
    if wrong:
        return 1
    print(f"docs: {output / 'index.html'} ({time.monotonic() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
