"""OAUTHBEARER with tokens that a program prints, against brokers with SASL_SSL and ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.external_brokers import ExternalBrokers, external_brokers
from support.external_sweeps import acls, left_in, run_all

from ackbench.experiments.orchestration.external_use import end_use, noted_uses
from ackbench.infra.errors import InputError
from ackbench.infra.machine.home import Home

pytestmark = [pytest.mark.cluster, pytest.mark.further]
TOKEN_BEGIN = "eyJhbGci"  # noqa: S105 - of every token
"""Of each JSON Web Token: `{"alg` in base64."""


@pytest.fixture(scope="module")
def brokers(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalBrokers]:
    """One broker, which permits nothing to the user yet."""
    with external_brokers(cache, tmp_path_factory.mktemp("external")) as running:
        yield running


def sections(brokers: ExternalBrokers, command: list[str]) -> dict[str, object]:
    """Return the sections of an experiment that has the output of this command for tokens."""
    return {
        "bootstrap.servers": brokers.oauth,
        "security": brokers.token_security(),
        "token_command": command,
    }


def text_of(folder: Path) -> str:
    """Return the text of all files of a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "\n".join(path.read_bytes().decode(errors="replace") for path in files)


@pytest.mark.further
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "axes": {"acks": ["all"], "fault": ["relay-dropped"], "replication.factor": [1]},
            "faults": {"relay-dropped": {"at_s": 1.0, "lasts_s": 1.5}},
            "producer": {"socket.timeout.ms": 1000},
            "workload": {"rate_records_per_s": 500, "duration_s": 4},
        },
        {
            "workload": {"rate_records_per_s": 500, "duration_s": 1.5},
            "copy": {"copiers": 1, "delivery": "exactly-once"},
            "producer": {"enable.idempotence": True},
        },
        {"client": "java"},
        {"client": "java", "kafka.version": "3.9.2"},
        {
            "client": "java",
            "producer": {"enable.idempotence": True},
            "workload": {"rate_records_per_s": 500, "duration_s": 1.5},
            "transactions": {"records": 50},
        },
        {
            "client": "java",
            "axes": {"acks": ["all"], "fault": ["relay-dropped"], "replication.factor": [1]},
            "faults": {"relay-dropped": {"at_s": 1.0, "lasts_s": 1.5}},
            "producer": {"request.timeout.ms": 1000},
            "workload": {"rate_records_per_s": 500, "duration_s": 4},
        },
    ],
    ids=[
        "plain",
        "behind-relays",
        "copies",
        "java",
        "java-3.9",
        "java-transactions",
        "java-behind-relays",
    ],
)
def test_clients_with_tokens_of_a_program_send_and_read_everything(
    home: Home, brokers: ExternalBrokers, changes: dict[str, object]
) -> None:
    """Producers, consumers and the final read; nothing is left, and no file has a token."""
    sweep = run_all(home, brokers, acls(), **sections(brokers, brokers.token_command()), **changes)
    ledgers = sorted(sweep.root.glob("trials/*/attempts.parquet"))
    assert ledgers
    for ledger in ledgers:
        assert set(pq.read_table(ledger)["outcome"].to_pylist()) == {"acked"}
    assert left_in(brokers) == set()
    assert TOKEN_BEGIN not in text_of(home.root)


@pytest.mark.further
@pytest.mark.parametrize("changes", [{}, {"client": "java"}], ids=["librdkafka", "java"])
def test_a_token_that_expires_during_the_load_is_replaced(
    home: Home, brokers: ExternalBrokers, tmp_path: Path, changes: dict[str, object]
) -> None:
    """The program ran again for the same clients.

    A broker ends connections whose token has expired only with `connections.max.reauth.ms`
    (KIP-368). What cannot be deleted within the life of a token is deleted by `ackbench clean`.
    """
    runs = [
        runs_of_program(home, brokers, tmp_path / str(seconds), seconds, changes)
        for seconds in (3600, 8)
    ]
    assert runs[1] > runs[0]
    for sweep_id in noted_uses(home):
        end_use(home, sweep_id)
    assert left_in(brokers) == set()


def runs_of_program(
    home: Home, brokers: ExternalBrokers, log: Path, seconds: int, changes: dict[str, object]
) -> int:
    """Return how often the program is run for a sweep, with tokens of this lifetime."""
    command = brokers.token_command(seconds, "--log", str(log))
    load = {"rate_records_per_s": 500, "duration_s": 10}
    run_all(home, brokers, acls(), workload=load, **sections(brokers, command), **changes)
    return len(log.read_text().splitlines())


def test_a_program_that_prints_an_expired_token_is_one_line_before_anything_is_made(
    home: Home, brokers: ExternalBrokers
) -> None:
    """The line names the program and not the token."""
    assert "printed a token that has expired" in refusal(home, brokers, brokers.token_command(-1))


def test_a_program_that_fails_is_one_line_before_anything_is_made(
    home: Home, brokers: ExternalBrokers
) -> None:
    """With the last line of its own."""
    command = brokers.token_command(60, "--key", "/no/such/key")
    assert "ended with 1: FileNotFoundError" in refusal(home, brokers, command)


def refusal(home: Home, brokers: ExternalBrokers, command: list[str]) -> str:
    """Return why a sweep with this command for tokens does not start; it is one line."""
    before = left_in(brokers)
    with pytest.raises(InputError) as refused:
        run_all(home, brokers, acls(), **sections(brokers, command))
    assert "\n" not in str(refused.value)
    assert TOKEN_BEGIN not in str(refused.value)
    assert left_in(brokers) == before
    return str(refused.value)
