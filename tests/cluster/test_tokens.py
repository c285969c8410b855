"""OAUTHBEARER with tokens that a program prints, against brokers with SASL_SSL and ACLs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.external_brokers import USER, ExternalBrokers, external_brokers
from support.external_sweeps import acls, left_in, run_all

from infra.errors import InputError
from infra.machine.home import Home

pytestmark = pytest.mark.cluster
PROGRAM = Path(__file__).parents[1] / "support" / "token_program.py"


@pytest.fixture(scope="module")
def brokers(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalBrokers]:
    """One broker, which permits nothing to the user yet."""
    with external_brokers(cache, tmp_path_factory.mktemp("external")) as running:
        yield running


def sections(brokers: ExternalBrokers, *arguments: str) -> dict[str, object]:
    """Return the sections of an experiment whose program gets these arguments."""
    return {
        "bootstrap.servers": brokers.oauth,
        "security": brokers.token_security(),
        "token_command": [sys.executable, str(PROGRAM), *arguments],
    }


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
            "workload": {
                "kind": "copy",
                "copiers": 1,
                "delivery": "exactly-once",
                "rate_records_per_s": 500,
                "duration_s": 1.5,
            },
            "producer": {"enable.idempotence": True},
        },
    ],
    ids=["plain", "behind-relays", "copies"],
)
def test_clients_with_tokens_of_a_program_send_and_read_everything(
    home: Home, brokers: ExternalBrokers, changes: dict[str, object]
) -> None:
    """Producers, consumers and the final read; nothing is left."""
    sweep = run_all(home, brokers, acls(), **sections(brokers, USER, "3600"), **changes)
    ledgers = sorted(sweep.root.glob("trials/*/attempts.parquet"))
    assert ledgers
    for ledger in ledgers:
        assert set(pq.read_table(ledger)["outcome"].to_pylist()) == {"acked"}
    assert left_in(brokers) == set()


def test_a_token_that_expires_during_the_load_is_replaced(
    home: Home, brokers: ExternalBrokers, tmp_path: Path
) -> None:
    """The program ran again for the same clients.

    A broker ends connections whose token has expired only with `connections.max.reauth.ms`
    (KIP-368).
    """
    log = tmp_path / "runs"
    few = sections(brokers, USER, "3600", str(tmp_path / "few"))
    run_all(home, brokers, acls(), **few)
    run_all(home, brokers, acls(), **sections(brokers, USER, "2", str(log)))
    assert len(log.read_text().splitlines()) > len((tmp_path / "few").read_text().splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((USER, "-1"), "printed a token that has expired"),
        (("nobody",), "ended with 1: IndexError"),
    ],
)
def test_a_program_that_gives_no_token_is_one_line_before_anything_is_made(
    home: Home, brokers: ExternalBrokers, arguments: tuple[str, ...], message: str
) -> None:
    """The line names the program and not the token."""
    with pytest.raises(InputError, match=message) as refused:
        run_all(home, brokers, acls(), **sections(brokers, *arguments))
    assert "\n" not in str(refused.value)
    assert "eyJ" not in str(refused.value)
    assert left_in(brokers) == set()
