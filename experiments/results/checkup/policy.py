"""An organisation's own rules about settings: what must be set, whatever Kafka guarantees.

A policy is YAML: `require:` with one rule for each property, by scope and name, such as
`topic replication.factor: ">= 3"` or `producer acks: all`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ackbench.experiments.messages.phrases import did_you_mean
from ackbench.experiments.planning.clients.rules import canonical_acks
from ackbench.experiments.planning.yaml_reader import read_yaml
from ackbench.experiments.results.checkup.configuration import Configuration
from ackbench.experiments.results.checkup.files.found import SCOPES
from ackbench.experiments.results.checkup.files.names import names_of
from ackbench.experiments.trial.clients.settings.kinds import ACKS
from ackbench.infra.errors import InputError

_REPLICATION: Final = "replication.factor"
_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_BOUND: Final = re.compile(r"(>=|<=|>|<)\s*(-?\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Requirement:
    """One rule: a property and what its value must be."""

    scope: str
    name: str
    value: str
    """The value, several with ` or ` between them, or a bound: `>= 3`."""

    def problem(self, configuration: Configuration) -> str | None:
        """Return how settings break the rule, `None`: they keep it, or are not about it."""
        found = _value_of(configuration, self.scope, self.name)
        if found is None or self._allows(found):
            return None
        return f"{self.scope} {self.name} is {found}; the policy requires {self.value}"

    def _allows(self, found: str) -> bool:
        bound = _BOUND.fullmatch(self.value)
        if bound:
            try:
                return _COMPARISONS[bound[1]](float(found), float(bound[2]))
            except ValueError:
                return False
        value = canonical_acks(found) if self.name == ACKS else found
        return value in re.split(r"\s+or\s+", self.value)


def read_policy(path: Path) -> tuple[Requirement, ...]:
    """Return the rules of a policy.

    Raises:
        InputError: it cannot be read, or a rule names no property; one line.
    """
    document = read_yaml(path)
    rules = document.get("require") if isinstance(document, dict) else None
    if not isinstance(rules, dict) or not rules or len(document) > 1:
        raise InputError(
            f"{path} is no policy; allowed: require: with rules such as producer acks: all"
        )
    return tuple(_requirement(path, str(key), value) for key, value in rules.items())


def broken_rules(policy: tuple[Requirement, ...], configuration: Configuration) -> Iterator[str]:
    """Yield a line for each rule that settings break."""
    for requirement in policy:
        problem = requirement.problem(configuration)
        if problem:
            yield problem


def _requirement(path: Path, key: str, value: Any) -> Requirement:
    scope, _, name = key.partition(" ")
    if scope not in SCOPES:
        raise InputError(
            f"{path}: {key} begins with no scope; allowed: {', '.join(SCOPES)}, as in producer acks"
        )
    known = names_of(scope) | ({_REPLICATION} if scope == "topic" else set())
    if name not in known:
        raise InputError(f"{path}: unknown {scope} property {name}{did_you_mean(name, known)}")
    if isinstance(value, dict | list) or value is None:
        raise InputError(f"{path}: {key} needs a value, such as all or '>= 3'")
    text = str(value).lower() if isinstance(value, bool) else str(value).strip()
    if text.startswith((">", "<")) and not _BOUND.fullmatch(text):
        raise InputError(f"{path}: {key} is {text}; a bound is a number, as in '>= 3'")
    return Requirement(scope, name, text)


def _value_of(configuration: Configuration, scope: str, name: str) -> str | None:
    """Return the value in effect; `None`: the settings have no consumer."""
    if scope == "topic":
        if name == _REPLICATION:
            return str(configuration.replicas)
        defaults = {one.name: one.default for one in configuration.kafka.topic}
        return (defaults | configuration.effective_topic()).get(name)
    if scope == "broker":
        return configuration.effective_broker().get(name)
    if scope == "producer":
        return configuration.effective_producer().get(name)
    if configuration.consumer is None:
        return None
    return configuration.effective_consumer().get(name)
