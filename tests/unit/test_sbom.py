"""The software bill of materials: it names what the lock files determine."""

import json
import re
from typing import Any

from ackbench.infra.kafka.jars import locked_jars, shipped_versions
from ackbench.infra.machine.home import REPOSITORY

REMEDY = "run `make sbom`"


def components(prefix: str) -> list[dict[str, Any]]:
    """Return the components whose package URL has this prefix."""
    bill = json.loads((REPOSITORY / "requirements" / "sbom.json").read_text())
    return [each for each in bill["components"] if each["purl"].startswith(prefix)]


def normalized(name: str) -> str:
    """Return the name of a package as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_python_package_has_the_version_of_a_lock() -> None:
    """A bill of an older lock would name vulnerable versions, or miss them."""
    requirement = re.compile(r"^([\w.\-]+)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)
    locked = {
        (normalized(name), version)
        for lock in ("lock.txt", "bootstrap.txt")
        for name, version in requirement.findall((REPOSITORY / "requirements" / lock).read_text())
    }
    listed = {(normalized(each["name"]), each["version"]) for each in components("pkg:pypi/")}
    assert listed, REMEDY
    assert listed - locked == set(), REMEDY


def test_every_jar_has_the_digest_of_the_verified_list() -> None:
    """The list is what an installed jar is compared with."""
    listed = {(each["bom-ref"], each["hashes"][0]["content"]) for each in components("pkg:maven/")}
    assert listed == {(jar.name, jar.sha256) for jar in locked_jars(shipped_versions()[-1])}, REMEDY
