"""`make sbom`: the software bill of materials and the licences of what ackbench installs.

`requirements/sbom.json` (CycloneDX 1.6) has the Python packages of the virtual environment, which
`requirements/lock.txt` determines, and the jars of the newest Kafka version, with their SHA-256
from `infra/kafka/ivy/`. `docs/licences.md` lists the licences as packages and jars declare them.
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
from typing import Any, Final
from xml.etree import ElementTree as ET

from ackbench.infra.kafka.jars import LockedJar, locked_jars, shipped_versions
from ackbench.infra.machine.home import REPOSITORY, Home

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
    jars = list(_jar_components(Home.from_environment().cache))
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


def _jar_components(cache: Path) -> Iterator[dict[str, Any]]:
    version = shipped_versions()[-1]
    declared = dict(_declared_licences(cache / "ivy"))
    for jar in locked_jars(version):
        yield _jar_component(jar, declared)


def _jar_component(
    jar: LockedJar, declared: Mapping[str, tuple[str, tuple[str, ...]]]
) -> dict[str, Any]:
    match = _JAR.fullmatch(jar.name)
    if match is None:
        raise ValueError(f"{jar.name} has no version in its name")
    group, licences = declared.get(jar.name.removesuffix(".jar"), ("", ()))
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


def _declared_licences(ivy: Path) -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    """Yield `name-version`, group and licences of each module that Ivy has resolved.

    A module without licences has those of its parent, which Ivy resolves too, in the same group.
    """
    modules = {}
    by_group: dict[str, tuple[str, ...]] = {}
    for path in sorted(ivy.glob("*/*/ivy-*.xml")):
        root = ET.parse(path).getroot()  # noqa: S314 - written by Ivy from Maven's POMs
        info = root.find("info")
        if info is None:
            continue
        group, name, version = (info.get(key, "") for key in ("organisation", "module", "revision"))
        licences = tuple(item.get("name", "") for item in info.findall("license"))
        modules[f"{name}-{version}"] = (group, licences)
        if licences:
            by_group.setdefault(group, licences)
    for module, (group, licences) in modules.items():
        yield module, (group, licences or by_group.get(group, ()))


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
