"""Writes the bills of materials, as CycloneDX: ``bill_of_materials.py FOLDER``.

That of the wheels lists what a wheel contains beside Penstock, and the packages that it needs or
can use, in the versions that ``constraints.txt`` pins and the tests run with. That of the C++
library, if FOLDER has its Debian package, lists the libraries that the package depends on, in the
versions that it was built with.
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
from licences import DEBIAN, PYTHON
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
    scopes = {name: ComponentScope.REQUIRED for line in dependencies for name in names_of(line)}
    for extra in ("cli", "dash", "parquet", "postgres", "trio", "uvloop"):
        for name in (name for line in extras[extra] for name in names_of(line)):
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
            licenses=[LicenseExpression(PYTHON[name])],
        )
        for name, scope in scopes.items()
    ]


def names_of(requirement: str) -> list[str]:
    """The packages of a requirement: ``psycopg[binary]`` installs psycopg-binary too."""
    name = re.split(r"[<>=;\[ ]", requirement)[0].lower()
    return [name, "psycopg-binary"] if requirement.startswith("psycopg[binary]") else [name]


# A user's program needs these only for some components: TLS, the HTTP client, deflate.
OF_COMPONENTS = {"libssl-dev", "libcurl4-openssl-dev", "zlib1g-dev"}
# Its templates are compiled into the static libraries; the user's compiler brings it.
COMPILED_IN = "libstdc++-12-dev"


def libraries(package: Path) -> list[Component]:
    """The Debian packages that the C++ library was built with, and depends on."""
    depends = output("dpkg-deb", "--field", str(package), "Depends")
    # Of alternatives the first one, which is the one on this machine.
    names = [re.split(r"[ (|]", each.strip())[0] for each in depends.split(",")]
    found = []
    for name in [*names, COMPILED_IN]:
        version = output("dpkg-query", "--show", "--showformat=${Version}", name)
        optional = name in OF_COMPONENTS
        found.append(
            Component(
                name=name,
                version=version,
                type=ComponentType.LIBRARY,
                scope=ComponentScope.OPTIONAL if optional else ComponentScope.REQUIRED,
                bom_ref=f"{name}@{version}",
                purl=PackageURL("deb", "debian", name, version),
                licenses=[LicenseExpression(DEBIAN[name])],
            )
        )
    return found


def output(*command: str) -> str:
    return subprocess.check_output(command, text=True).strip()


def write(path: Path, described: Component, components: list[Component]) -> None:
    """Write the bill of one distribution."""
    bom = Bom(components=components)
    bom.metadata.component = described
    bom.register_dependency(described, bom.components)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    if (invalid := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise SystemExit(f"{path.name} does not follow CycloneDX 1.6: {invalid}")
    path.write_text(text + "\n")


def main(folder: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    source = (ROOT / "python/penstock/__init__.py").read_text()
    (version,) = re.findall(r'^__version__ = "(.*)"', source, re.MULTILINE)
    licenses = [LicenseExpression(project["license"])]
    wheel = Component(
        name="penstock",
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=f"penstock@{version}",
        purl=PackageURL("pypi", None, "penstock", version),
        licenses=licenses,
    )
    write(folder / f"penstock-{version}.cdx.json", wheel, [*bundled(), *packages(project)])
    for package in folder.glob(f"libpenstock-dev_{version}_*.deb"):
        library = Component(
            name="libpenstock-dev",
            version=version,
            type=ComponentType.LIBRARY,
            bom_ref=f"libpenstock-dev@{version}",
            purl=PackageURL("deb", None, "libpenstock-dev", version),
            licenses=licenses,
        )
        write(folder / f"libpenstock-dev-{version}.cdx.json", library, libraries(package))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
