"""`ackbench why acks=1`: the rules, experiments and sweeps in which a setting decides something."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from typing import Final

from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.messages.phrases import did_you_mean, format_count, list_some
from ackbench.experiments.messages.terminal import echo, echo_error
from ackbench.experiments.planning.axes import STRUCTURE_AXES, full_name
from ackbench.experiments.planning.catalog.loading import catalog_experiments, load_experiment
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.overrides import refuse_value
from ackbench.experiments.results.checkup.files.found import SCOPES
from ackbench.experiments.results.checkup.files.names import names_of
from ackbench.experiments.results.checkup.seen import stored_trials
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.verdicts.contract import source_name
from ackbench.experiments.verdicts.guarantees import GUARANTEES
from ackbench.experiments.verdicts.guarantees.rules import Rule
from ackbench.infra.machine.home import Home

_MOST_RULES: Final = 12
_WIDTH: Final = 100
_WORDS: Final = {True: "guaranteed", False: "not guaranteed", None: "unknown"}


def why(home: Home, setting: str) -> int:
    """Print where a setting decides something.

    Args:
        home: has the sweeps that may have swept it.
        setting: a name, or `name=value`.

    Raises:
        UnknownName: no scope has such a property, and no axis has that name.
        ExperimentError: it cannot have the value.
    """
    name, value = _parts(setting)
    if name not in (known := _settings()):
        raise UnknownName(
            f"unknown setting {name}{did_you_mean(name, known)}; faults: `ackbench faults`"
        )
    if value:
        refuse_value(load_experiment("quick"), name, value)
    width = min(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDTH)
    echo(f"{name}={value}" if value else name, bold=True)
    for line in (*_rules(name, value), *_experiments(name), *_sweeps(home, name, value)):
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        for part in textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False):
            echo(part)
    return 0


def command_about(word: str) -> str | None:
    """Return the command that describes a fault or a setting; `None`: the word names neither."""
    name, value = _parts(word)
    if name in FAULTS:
        return f"{name} is a fault: `ackbench faults {name}` describes it"
    if name in _settings():
        named = f"{name}={value}" if value else name
        return f"{name} is a setting: `ackbench why {named}` says where it decides something"
    return None


def _parts(setting: str) -> tuple[str, str]:
    name, _, value = (part.strip() for part in setting.partition("="))
    return full_name(name), value


def _settings() -> set[str]:
    return {*STRUCTURE_AXES}.union(*(names_of(scope) for scope in SCOPES))


def _rules(name: str, value: str) -> Iterator[str]:
    """Yield the rules of the contract whose condition names the setting, or its reason."""
    named = [
        (guarantee.label, rule)
        for guarantee in GUARANTEES
        for rule in guarantee.rules
        if _names(rule.condition, name, value)
    ]
    if not named:
        named = [
            (guarantee.label, rule)
            for guarantee in GUARANTEES
            for rule in guarantee.rules
            if _names(rule.reason, name, "")
        ]
    if not named:
        yield "no rule of the contract depends on it (docs/contract.md)"
        return
    yield f"rules of the contract ({format_count(len(named), 'rule')}, docs/contract.md):"
    for label, rule in named[:_MOST_RULES]:
        yield f"  {label}: {_words(rule)}"
    if len(named) > _MOST_RULES:
        yield f"  and {len(named) - _MOST_RULES} more"


def _names(text: str, name: str, value: str) -> bool:
    """Return whether a text names a setting, with this value or without any."""
    for found in re.finditer(rf"(?<![\w.-]){re.escape(name)}(?:=([\w.-]*\w))?(?![\w-])", text):
        if not value or found[1] in {None, value}:
            return True
    return False


def _words(rule: Rule) -> str:
    reason = rule.reason.split(" (")[0]
    return f"{_WORDS[rule.guaranteed]} if {rule.condition}: {reason} [{source_name(rule.source)}]"


def _experiments(name: str) -> Iterator[str]:
    """Yield the experiments of the catalogue that sweep the setting."""
    sweeping = [one for one in catalog_experiments() if _sweeps_it(one, name)]
    lessons = [one for one in sweeping if one.claim]
    others = [one.name for one in sweeping if not one.claim]
    if lessons:
        yield "lessons that sweep it:"
        yield from (f"  {one.name}: {one.title}" for one in lessons)
    if others:
        yield f"other experiments that sweep it: {list_some(others, 8)}"
    if sweeping:
        yield f"run one: ackbench run {sweeping[0].name}"


def _sweeps_it(experiment: Experiment, name: str) -> bool:
    values = [
        value
        for cross in experiment.axes
        for axis, axis_values in cross.items()
        if axis == name or axis.partition(".")[2] == name
        for value in axis_values
    ]
    return len(set(map(str, values))) > 1


def _sweeps(home: Home, name: str, value: str) -> Iterator[str]:
    """Yield how many stored trials had the setting."""
    trials = [
        trial.spec
        for trial in stored_trials(home, echo_error)
        if (found := _value_of(trial.spec.cell, trial.spec.producer, name)) is not None
        and (not value or found == value)
    ]
    if trials:
        sweeps = list(dict.fromkeys(spec.sweep_id for spec in trials))
        yield (
            f"stored: {format_count(len(trials), 'trial')} in "
            f"{format_count(len(sweeps), 'sweep')}: {list_some(sweeps, 3)}"
        )


def _value_of(cell: Mapping[str, object], producer: Mapping[str, str], name: str) -> str | None:
    value = cell.get(name, producer.get(name))
    return None if value is None else str(value)
