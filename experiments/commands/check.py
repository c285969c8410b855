"""`ackbench check`: what Kafka guarantees with given settings, before any sweep."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ackbench.experiments.messages.errors import GATE_EXIT_CODE
from ackbench.experiments.messages.phrases import did_you_mean
from ackbench.experiments.messages.terminal import echo, echo_error, echo_json
from ackbench.experiments.results.checkup.changes import Change, ChangeSearch, advised_changes
from ackbench.experiments.results.checkup.configuration import Configuration, ReportedCluster
from ackbench.experiments.results.checkup.diagnosis import Diagnosis, diagnose
from ackbench.experiments.results.checkup.files.found import FoundFile
from ackbench.experiments.results.checkup.files.text import text_of
from ackbench.experiments.results.checkup.fixing import changes_of, fixed
from ackbench.experiments.results.checkup.own_names import named_changes
from ackbench.experiments.results.checkup.policy import broken_rules, read_policy
from ackbench.experiments.results.checkup.seen import seen_trials, stored_trials
from ackbench.experiments.results.checkup.text import ANSWERED, as_document, report_lines, wrapped
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.verdicts.guarantees import Guarantee, guarantee_named
from ackbench.infra.errors import InputError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

_PIPED_COLUMNS: Final = 100


def cluster_of(
    servers: str | None, topic: str | None, command_config: str | None, excluded: Mapping[str, bool]
) -> ReportedCluster | None:
    """Return what a running cluster reports; `None`: none is named.

    Args:
        servers: of `--bootstrap`.
        topic: of `--topic-name`.
        command_config: of `--command-config`.
        excluded: options that say what the cluster reports too, and whether each is given.

    Raises:
        InputError: options exclude each other or need `--bootstrap`; or as `reported_cluster`.
    """
    if servers is None:
        for option, value in (("--topic-name", topic), ("--command-config", command_config)):
            if value is not None:
                raise InputError(f"{option} needs --bootstrap, the address of a running cluster")
        return None
    for option, given in excluded.items():
        if given:
            raise InputError(f"{option} and --bootstrap: give one, the cluster reports the same")
    from ackbench.experiments.results.checkup.running_cluster import reported_cluster

    return reported_cluster(servers, topic, command_config)


def check(
    home: Home,
    configuration: Configuration,
    files: Sequence[FoundFile],
    *,
    as_json: bool,
    junit: Path | None,
    fail_on: Sequence[str],
    policy: Path | None = None,
    fix: bool = False,
) -> int:
    """Print what is guaranteed with the settings, and what to change.

    Args:
        home: has the sweeps that may have seen the same settings.
        configuration: the settings.
        files: where they are from.
        as_json: print one JSON object.
        junit: where to write the same as test cases, one per guarantee and fault.
        fail_on: guarantees, or guarantees with a fault (`no-acked-loss:leader-crash`).
        policy: a file with the rules of an organisation.
        fix: write each file again beside itself, with the changes that help.

    Returns:
        The exit code: 3 if one of `fail_on` is not guaranteed, or a rule is broken.

    Raises:
        InputError: a guarantee or a fault of `fail_on` is unknown, or not about these settings; or
            the policy cannot be read.
    """
    for warning in configuration.warnings:
        echo_error(f"warning: {warning}")
    rules = read_policy(policy) if policy else ()
    diagnosis = diagnose(configuration)
    required = [_parse(text, diagnosis) for text in fail_on]
    search = ChangeSearch(diagnosis)
    seen = seen_trials(configuration, stored_trials(home, echo_error))
    if as_json:
        echo_json(json.dumps(as_document(diagnosis, search, seen, files), indent=1))
    else:
        columns = min(shutil.get_terminal_size((_PIPED_COLUMNS, 24)).columns, _PIPED_COLUMNS)
        lines = report_lines(diagnosis, search, seen, files, columns=columns)
        for line in wrapped(lines, columns):
            echo(line)
    if junit is not None:
        replace_file(junit, _junit(diagnosis))
    missing = [
        f"{guarantee.name} is not guaranteed under {fault}: {clause.reason}"
        for guarantee, named in required
        for fault, clause in diagnosis.of(guarantee)
        if named in {None, fault} and not clause.guaranteed
    ]
    for line in missing:
        echo_error(f"--fail-on: {line}")
    broken = list(broken_rules(rules, configuration))
    for line in broken:
        echo_error(f"--policy: {line}")
    if fix:
        _fix(files, list(advised_changes(configuration, ANSWERED)))
    return GATE_EXIT_CODE if missing or broken else 0


def _fix(files: Sequence[FoundFile], advised: Sequence[Change]) -> None:
    """Write each file that a change concerns again beside itself."""
    for file in files:
        scopes = sorted({one.scope for one in file.settings})
        result = fixed(text_of(file.path), file, changes_of(scopes, advised))
        if result.done:
            path = file.path.with_name(f"{file.path.stem}.fixed{file.path.suffix}")
            replace_file(path, result.text)
            echo_error(f"{path}: {'; '.join(result.done)}")
        for change in result.by_hand:
            named = named_changes([change], [file])
            echo_error(f"{file.path.name}: {named} has no place in it: set it by hand")


def _parse(text: str, diagnosis: Diagnosis) -> tuple[Guarantee, str | None]:
    name, separator, fault = text.partition(":")
    known = [guarantee.name for guarantee in diagnosis.guarantees]
    if name not in known:
        raise InputError(
            f"--fail-on {text}: unknown guarantee {name}{did_you_mean(name, known)}; allowed: "
            f"{', '.join(known)}"
        )
    if separator and fault not in {one.fault for one in diagnosis.faults}:
        if fault in FAULTS:
            raise InputError(f"--fail-on {text}: {fault} is not possible with these settings")
        raise InputError(f"--fail-on {text}: unknown fault {fault}{did_you_mean(fault, FAULTS)}")
    return guarantee_named(name), fault if separator else None


def _junit(diagnosis: Diagnosis) -> str:
    """Return JUnit's XML with a test case for each guarantee under each fault."""
    from ackbench.experiments.results.formats.junit import Outcome, TestCase, junit_xml

    outcomes: dict[bool | None, Outcome] = {True: "passed", False: "failure", None: "skipped"}
    return junit_xml(
        TestCase(guarantee.name, fault, outcomes[clause.guaranteed], clause.reason, clause.source)
        for guarantee in diagnosis.guarantees
        for fault, clause in diagnosis.of(guarantee)
    )
