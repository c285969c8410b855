"""JUnit's XML, which CI systems read: of any list of test cases. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Literal
from xml.etree import ElementTree as ET

from ackbench.experiments.messages.visible import visible

Outcome = Literal["passed", "failure", "skipped", "error"]


@dataclass(frozen=True)
class TestCase:
    """One test case; those of a suite stand together."""

    suite: str
    name: str
    outcome: Outcome
    message: str = ""
    text: str = ""


def junit_xml(cases: Iterable[TestCase]) -> str:
    """Return test cases as a document."""
    root = ET.Element("testsuites")
    for name, group in groupby(cases, key=lambda case: case.suite):
        members = list(group)
        outcomes = Counter(case.outcome for case in members)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=visible(name),
            tests=str(len(members)),
            failures=str(outcomes["failure"]),
            errors=str(outcomes["error"]),
            skipped=str(outcomes["skipped"]),
        )
        for case in members:
            element = ET.SubElement(
                suite, "testcase", classname=visible(name), name=visible(case.name)
            )
            if case.outcome != "passed":
                result = ET.SubElement(element, case.outcome, message=visible(case.message))
                result.text = visible(case.text)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
