"""`ackbench client check` on the program of the documents, and on broken copies of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from support.command_line import ackbench
from support.needed_programs import skip_without

from ackbench.experiments.trial.clients.adapters import adapters
from ackbench.infra.machine.home import REPOSITORY, Home

DOCUMENT = (REPOSITORY / "docs/clients.md").read_text()
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
LINE = re.compile(r"^  (passed|FAILED|absent) +([^:\n]+)", re.MULTILINE)
ACKNOWLEDGES_AT_ONCE = """\
                producer.produce(given.topic, value, key)
                say("producer_send_success", value=value, partition=0, offset=number)
"""
pytestmark = [pytest.mark.cluster, pytest.mark.further]
OPTIONAL = {"reports version and settings", "reports exact times"}


@pytest.fixture
def home(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The home of the command."""
    monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
    return home


def checked(folder: Path, source: str, *options: str) -> tuple[int, dict[str, set[str]]]:
    """Return the exit code of a check, and the checks by their outcome."""
    program = folder / "client.py"
    program.write_text(source)
    done = ackbench("client", "check", *options, "--", sys.executable, str(program))
    outcomes: dict[str, set[str]] = {}
    for outcome, name in LINE.findall(done.output):
        outcomes.setdefault(outcome, set()).add(name)
    return done.exit_code, outcomes


def test_the_program_of_the_documents_is_ready_and_leaves_nothing(
    home: Home, tmp_path: Path
) -> None:
    """It lacks optional fields only."""
    code, outcomes = checked(tmp_path, EXAMPLE)
    assert code == 0
    assert outcomes.keys() == {"passed", "absent"}
    assert outcomes["absent"] == OPTIONAL
    assert list(home.clusters.iterdir()) == []


@pytest.mark.usefixtures("home")
@pytest.mark.further
@pytest.mark.parametrize(
    ("now", "broken", "role", "failed"),
    [
        (
            "                producer.produce(given.topic, value, key, on_delivery=settled)\n",
            ACKNOWLEDGES_AT_ONCE,
            "producer",
            "acknowledges nothing that is not stored",
        ),
        ("    producer.flush()\n", "", "producer", "reports what was in flight at SIGTERM"),
        (
            "offset=message.offset())",
            "offset=message.offset() + 1)",
            "producer",
            "reports where a record is stored",
        ),
        (
            "                commit(consumer)\n",
            '                say("offsets_committed", success=True, error=None, offsets=[])\n',
            "consumer",
            "begins where its group committed",
        ),
    ],
    ids=["acknowledges at once", "forgets the flush", "lies about offsets", "commits nothing"],
)
def test_a_broken_program_fails_the_check_of_what_is_broken(
    tmp_path: Path, now: str, broken: str, role: str, failed: str
) -> None:
    """The page says which."""
    assert EXAMPLE.count(now) == 1
    code, outcomes = checked(tmp_path, EXAMPLE.replace(now, broken), "--role", role)
    assert code == 3
    assert failed in outcomes["FAILED"]


def test_a_program_that_does_not_exist_is_refused_before_a_broker_is_started(home: Home) -> None:
    """One line, exit code 2."""
    done = ackbench("client", "check", "--", "./no-such-program")
    assert (done.exit_code, done.output) == (2, "ackbench: no such program: './no-such-program'\n")
    assert not home.clusters.exists()


LACKING = {"kafka-python": {"reports records that the broker refuses"}}
"""The checks that adapters of the locked releases do not pass.

kafka-python 3.0.12 splits a batch that the broker refuses as too large, and then `flush` returns
before the records of its parts are settled: they are never reported.
"""


@pytest.mark.usefixtures("home")
@pytest.mark.further
@pytest.mark.parametrize("kind", adapters())
def test_each_adapter_is_ready(kind: str) -> None:
    """Built with the release of its lock."""
    skip_without(*adapters()[kind].toolchain)
    done = ackbench("client", "check", kind)
    failed = {name for outcome, name in LINE.findall(done.output) if outcome == "FAILED"}
    assert failed == LACKING.get(kind, set())
    assert done.exit_code == (3 if failed else 0)
