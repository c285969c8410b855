"""`make sbom`: the software bill of materials and the licences of what ackbench installs.

`requirements/sbom.json` (CycloneDX 1.6) has the Python packages of the virtual environment, which
`requirements/lock.txt` determines, and the jars of the newest Kafka version, with their SHA-256
from `infra/kafka/jar_lists/`. `docs/licences.md` lists the licences as packages and jars declare
them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import venv
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

from ackbench.infra.kafka.jar_resolver import resolve
from ackbench.infra.kafka.jars import LockedJar, locked_jars, shipped_versions
from ackbench.infra.machine.home import REPOSITORY

if TYPE_CHECKING:
    from jgo.maven import Component

GENERATOR: Final = "cyclonedx-bom==7.5.0"
SBOM: Final = REPOSITORY / "requirements" / "sbom.json"
LICENCES: Final = REPOSITORY / "docs" / "licences.md"
_NAMES: Final[Mapping[str, str]] = {
    "Apache License, Version 2.0": "Apache-2.0",
    "The Apache License, Version 2.0": "Apache-2.0",
    "The Apache Software License, Version 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "License :: DFSG approved": "",
    "License :: Other/Proprietary License": "",  # says no more than that it is not in PyPI's list
    "BSD License": "BSD",
    "The MIT License": "MIT",
    "MIT License": "MIT",
    "GNU General Public License (GPL)": "GPL",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Artistic License": "Artistic",
}
"""Declared names of licences, and their SPDX identifiers where one is certain."""
_NOT_INSTALLED_FROM_LOCKS: Final = frozenset({"ackbench", "pip", "setuptools"})
"""The project itself, and what Python's `venv` puts into a new environment."""
_JAR: Final = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.\-]*)\.jar")


def main() -> int:
    """Write both files and print how many components they have."""
    bill = _python_packages()
    packages = list(bill["components"])
    jars = list(_jar_components())
    bill["components"] = [*packages, *jars]
    SBOM.write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n")
    LICENCES.write_text("\n".join(_licence_lines(packages, jars)) + "\n")
    sys.stdout.write(f"{len(packages)} Python packages and {len(jars)} jars: {SBOM}, {LICENCES}\n")
    return 0


def _python_packages() -> dict[str, Any]:
    """Return the bill of materials of this virtual environment."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        tools, output = Path(folder, "bin"), Path(folder, "sbom.json")
        subprocess.run([tools / "pip", "install", "--quiet", GENERATOR], check=True)
        subprocess.run(
            [
                tools / "cyclonedx-py",
                *("environment", "--output-reproducible", "--sv", "1.6"),
                *("--pyproject", REPOSITORY / "pyproject.toml"),
                *("--output-file", output, sys.executable),
            ],
            check=True,
        )
        bill: dict[str, Any] = json.loads(output.read_text())
    bill["components"] = [
        {name: value for name, value in component.items() if name != "externalReferences"}
        for component in bill["components"]
        if component["name"] not in _NOT_INSTALLED_FROM_LOCKS
    ]
    return bill


def _jar_components() -> Iterator[dict[str, Any]]:
    version = shipped_versions()[-1]
    with tempfile.TemporaryDirectory() as folder:
        declared = {
            name: (jar.groupId, _licences_of(jar.artifact.component))
            for name, jar in resolve(version, Path(folder)).items()
        }
    for jar in locked_jars(version):
        yield _jar_component(jar, declared)


def _licences_of(component: Component) -> tuple[str, ...]:
    """Return the licences that a module declares; without any, those of its parent."""
    pom = ET.parse(component.artifact(packaging="pom").resolve())  # noqa: S314 - as fetched
    licences = tuple(
        (one.text or "").strip() for one in pom.findall("{*}licenses/{*}license/{*}name")
    )
    parent = pom.find("{*}parent")
    if licences or parent is None:
        return licences
    group, name, version = (
        parent.findtext(f"{{*}}{part}", "") for part in ("groupId", "artifactId", "version")
    )
    return _licences_of(component.context.project(group, name).at_version(version))


def _jar_component(
    jar: LockedJar, declared: Mapping[str, tuple[str, tuple[str, ...]]]
) -> dict[str, Any]:
    match = _JAR.fullmatch(jar.name)
    if match is None:
        raise ValueError(f"{jar.name} has no version in its name")
    group, licences = declared.get(jar.name, ("", ()))
    return {
        "type": "library",
        "bom-ref": jar.name,
        "group": group,
        "name": match["name"],
        "version": match["version"],
        "purl": f"pkg:maven/{group}/{match['name']}@{match['version']}",
        "hashes": [{"alg": "SHA-256", "content": jar.sha256}],
        "licenses": [{"license": {"name": name}} for name in licences],
    }


def _licence_lines(packages: list[dict[str, Any]], jars: list[dict[str, Any]]) -> Iterator[str]:
    yield from (
        "# Licences",
        "",
        "What ackbench installs, by the licence that each package or jar declares in its metadata",
        "(SPDX identifiers where one is certain). Written by `make sbom`, together with",
        "[requirements/sbom.json](../requirements/sbom.json) (CycloneDX), which has the versions.",
        "Nothing of it is part of ackbench's own files.",
        "",
    )
    for title, components in (("Python packages", packages), ("Kafka's jars", jars)):
        by_licence: defaultdict[str, list[str]] = defaultdict(list)
        for component in components:
            by_licence[_licence(component)].append(component["name"])
        yield from (f"## {title}", "", "| licence | number | names |", "|---|---|---|")
        for licence, names in sorted(by_licence.items(), key=lambda item: -len(item[1])):
            listed = ", ".join(sorted(names, key=str.lower))
            yield f"| {licence} | {len(names)} | {listed} |"
        yield ""


def _licence(component: Mapping[str, Any]) -> str:
    names = set()
    for entry in component.get("licenses", ()):
        licence = entry.get("license", {})
        name = entry.get("expression") or licence.get("id") or licence.get("name", "")
        short = name.removeprefix("License :: OSI Approved").removeprefix(" :: ").strip()
        names.add(_NAMES.get(short, short))
    specific = {name for name in names if name and not any(_is_general(name, n) for n in names)}
    return " or ".join(sorted(specific)) or "not declared"


def _is_general(name: str, other: str) -> bool:
    """Return whether a name only repeats a more specific one, as `BSD` does `BSD-3-Clause`."""
    return name != other and other.startswith(f"{name}-")


if __name__ == "__main__":
    sys.exit(main())
