"""`ackbench client check`: run a program on a real broker, and say what it does and lacks."""

from __future__ import annotations

import shutil
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.messages.terminal import echo, echo_error
from ackbench.experiments.planning.clients.programs import found_command
from ackbench.experiments.sweep.client_kinds import ClientKind
from ackbench.experiments.trial.clients.adapters import adapters, built_command, check_release
from ackbench.infra.cluster.local import provision
from ackbench.infra.cluster.setup import ensure_kafka_ready
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.scratch import CLIENT_CHECK, scratch_folder
from ackbench.infra.process.load_lock import hold_machine_lock_for_command

if TYPE_CHECKING:
    from ackbench.experiments.trial.clients.programs.dialect import Role
    from ackbench.experiments.trial.conformance.checks import CheckFinding
    from ackbench.experiments.trial.conformance.reports import Run

NOT_CONFORMING: Final = 3
_COLUMNS: Final = 80
_INDENT: Final = "          "


def check(home: Home, command: Sequence[str], role: Role | None, version: str | None) -> int:
    """Run a program in each role on a broker of its own, and print what each check finds.

    Args:
        home: has the cache, and the cluster while it runs.
        command: the program and its arguments, without the role; or the name of an adapter alone.
        role: the only one to check; `None`: both.
        version: of an adapter's library; `None`: that of its lock.

    Returns:
        The exit code: 0, or 3 if the program lacks something that a trial needs.

    Raises:
        InputError: there is no such program.
        HarnessError: the broker, not the program, failed.
    """
    from ackbench.experiments.trial.conformance.checks import CheckOutcome, judge
    from ackbench.experiments.trial.conformance.scenarios import Scenarios

    program, title = _program(home, command, version)
    spec = ClusterSpec(nodes=1, controllers=0)
    with (
        hold_machine_lock_for_command(home, "client check", echo_error),
        scratch_folder(home.cache, CLIENT_CHECK) as folder,
    ):
        ensure_kafka_ready(home.cache, spec, echo_error)
        echo_error(f"starting a broker of Kafka {spec.kafka_version}")
        name = f"client-check-{folder.name.removeprefix(CLIENT_CHECK)}"
        cluster = provision(home.clusters, home.cache, name, spec)
        try:
            runs: dict[str, Run] = {}
            scenarios = Scenarios(program, cluster, folder, echo_error)
            if role != "consumer":
                runs |= scenarios.producer()
            if role != "producer":
                runs |= scenarios.consumer()
            runs |= scenarios.outage(produces=role != "consumer", consumes=role != "producer")
        finally:
            cluster.destroy()  # its logs stay, for an error of the harness
        shutil.rmtree(home.clusters / name)
    findings = judge(runs, role)
    for line in describe(title, findings):
        echo(line)
    return NOT_CONFORMING if any(one.outcome is CheckOutcome.FAILED for one in findings) else 0


def _program(
    home: Home, command: Sequence[str], version: str | None
) -> tuple[tuple[str, ...], str]:
    """Return the command that the words name, and how the page names it."""
    name: ClientKind = command[0]
    if len(command) == 1 and name in adapters():
        if version is not None:
            check_release(name, version)
        title = f"{name} {version or adapters()[name].version}"
        return built_command(home.cache, name, version, echo_error), title
    if version is not None:
        raise InputError(f"--version is for an adapter; allowed: {', '.join(adapters())}")
    return found_command(command), " ".join(command)


def describe(title: str, findings: Sequence[CheckFinding]) -> Iterator[str]:
    """Yield the lines of the page, of at most 80 columns each.

    Args:
        title: the program.
        findings: in the order of the page.
    """
    from ackbench.experiments.trial.conformance.checks import CheckOutcome

    for role in dict.fromkeys(finding.role for finding in findings):
        yield f"{title} as {role}"
        for finding in (one for one in findings if one.role == role):
            detail = f": {finding.detail}" if finding.detail else ""
            yield textwrap.fill(
                f"{finding.name}{detail}",
                _COLUMNS,
                initial_indent=f"  {finding.outcome:<8}",
                subsequent_indent=_INDENT,
                break_long_words=True,
            )
        yield ""
    counts = Counter(finding.outcome for finding in findings)
    passed, failed = counts[CheckOutcome.PASSED], counts[CheckOutcome.FAILED]
    unknown = counts[CheckOutcome.UNKNOWN]
    yield (
        f"{passed} of {format_count(len(findings), 'check')} passed, {failed} failed, "
        f"{counts[CheckOutcome.ABSENT]} optional and absent"
        f"{f', {unknown} unknown' if unknown else ''}"
    )
    if passed < len(findings):
        yield "docs/clients.md says what each line and field means."
    if failed:
        yield "A trial with this program would fail, or say less than the truth."
