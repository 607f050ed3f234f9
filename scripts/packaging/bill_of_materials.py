"""Writes the bill of materials, as CycloneDX: ``bill_of_materials.py FOLDER``.

It lists what a wheel contains beside Penstock, and the packages that it needs or can use, in the
versions that ``constraints.txt`` pins and the tests run with.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version as version_of_tool
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "python" / "penstock" / "dash" / "page"
LLVM = "Apache-2.0 WITH LLVM-exception"


def bundled() -> list[Component]:
    """The libraries that are linked statically into the extension modules, and the page's."""
    liburing = subprocess.check_output(["pkg-config", "--modversion", "liburing"], text=True)
    zig = version_of_tool("ziglang")
    uplot = (PAGE / "vendor" / "uPlot.iife.min.js").read_text().partition("(v")[2].partition(")")[0]
    return [
        library("liburing", liburing.strip(), "MIT"),
        library("libc++", f"zig-{zig}", LLVM),
        library("libc++abi", f"zig-{zig}", LLVM),
        library("libunwind", f"zig-{zig}", LLVM),
        library("zig-compiler-rt", zig, "MIT"),
        library("uplot", uplot, "MIT"),
    ]


def library(name: str, version: str, license: str) -> Component:
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        scope=ComponentScope.REQUIRED,
        bom_ref=f"{name}@{version}",
        purl=PackageURL("generic", None, name, version),
        licenses=[LicenseExpression(license)],
    )


def packages(project: dict[str, object]) -> list[Component]:
    """The packages that users install with Penstock: required, or by an extra."""
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().lower().splitlines()
        if "==" in line
    )
    dependencies, extras = project["dependencies"], project["optional-dependencies"]
    assert isinstance(dependencies, list) and isinstance(extras, dict)
    scopes = {name_of(line): ComponentScope.REQUIRED for line in dependencies}
    for extra in ("cli", "dash", "parquet", "postgres", "trio", "uvloop"):
        for name in map(name_of, extras[extra]):
            if name != "penstock":
                scopes.setdefault(name, ComponentScope.OPTIONAL)
    return [
        Component(
            name=name,
            version=pins[name],
            type=ComponentType.LIBRARY,
            scope=scope,
            bom_ref=f"{name}@{pins[name]}",
            purl=PackageURL("pypi", None, name, pins[name]),
        )
        for name, scope in scopes.items()
    ]


def name_of(requirement: str) -> str:
    return re.split(r"[<>=;\[ ]", requirement)[0].lower()


def main(folder: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    source = (ROOT / "python/penstock/__init__.py").read_text()
    (version,) = re.findall(r'^__version__ = "(.*)"', source, re.MULTILINE)
    penstock = Component(
        name="penstock",
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=f"penstock@{version}",
        purl=PackageURL("pypi", None, "penstock", version),
        licenses=[LicenseExpression(project["license"])],
    )
    bom = Bom(components=[*bundled(), *packages(project)])
    bom.metadata.component = penstock
    bom.register_dependency(penstock, bom.components)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    if (invalid := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise SystemExit(f"the bill of materials does not follow CycloneDX 1.6: {invalid}")
    (folder / f"penstock-{version}.cdx.json").write_text(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
