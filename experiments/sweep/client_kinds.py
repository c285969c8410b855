"""The kinds of clients under test, with their traits as data.

A kind is librdkafka, Kafka's Java clients, or the name of a program: of an adapter, or of the
experiment's own.

Code asks for a trait, not for a kind, so that another kind is another entry here. Rules of the
contract name kinds, because their sources do; the settings of each library are in
`trial.clients.settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import StringConstraints

ClientKind = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=30)
]
DEFAULT_CLIENT: Final[ClientKind] = "librdkafka"
FINAL_READER: Final[ClientKind] = "librdkafka"
"""Reads each topic to its end, whichever client is under test."""
CLIENT_AXIS: Final = "client"
VERSION_AXIS: Final = "client.version"
_MIB: Final = 2**20


@dataclass(frozen=True)
class ClientTraits:
    """The abilities and needs of one kind of client."""

    title: str
    """Its name in sentences."""
    owner: str
    """The same as a possessive, as in `Java's default`."""
    process_bytes: int
    """Memory of a producer or consumer process."""
    reports_in_text: bool = False
    """`True`: it is a program that prints a line per record.

    It generates the records' values itself: numbers as text, at a whole rate, with keys that it
    takes in turn. So the workload chooses neither size nor keys nor partitions, values carry no
    header, and a consumer does not report that it is behind a transaction's marker. As a member of
    a group it commits after each poll, or its client does by itself; no fault can hold it.
    """
    output_record_bytes: int = 0
    """Size of the output of such a program per record."""
    attempts_survive: bool = True
    """`True`: the ledger of a producer's attempts is complete when its process is killed.

    Only then can a fault kill and replace it, or a reader follow it.
    """
    adds_partitions_itself: bool = True
    """`True`: it sends AddPartitionsToTxn also to brokers that do without (KIP-890)."""
    planned_security: bool = True
    """`True`: security properties are among its planned settings; else it gets them with the
    addresses."""
    comes_with_kafka: bool = False
    """`True`: its version is that of Kafka's jars."""
    is_program: bool = False
    """`True`: it is a program of `docs/clients.md`; it keeps its library's defaults."""
    has_transactions: bool = True
    """`True`: its producers can send in transactions."""
    has_copiers: bool = True
    """`True`: ackbench has copiers that run on it."""


LIBRARIES: Final[Mapping[ClientKind, ClientTraits]] = MappingProxyType(
    {
        "librdkafka": ClientTraits(
            title="librdkafka",
            owner="librdkafka's",
            process_bytes=250 * _MIB,  # 150 MiB for the interpreter, the rest for queues
        ),
        "java": ClientTraits(
            title="Java's client",
            owner="Java's",
            process_bytes=450 * _MIB,  # a heap of 256 MiB and the JVM
            reports_in_text=True,
            output_record_bytes=400,
            attempts_survive=False,
            adds_partitions_itself=False,
            planned_security=False,
            comes_with_kafka=True,
        ),
    }
)
_PROGRAM: Final = ClientTraits(
    title="",
    owner="",
    process_bytes=250 * _MIB,
    reports_in_text=True,
    output_record_bytes=400,
    attempts_survive=False,
    adds_partitions_itself=False,
    planned_security=False,
    is_program=True,
    has_transactions=False,
    has_copiers=False,
)


def traits_of(kind: ClientKind) -> ClientTraits:
    """Return the traits of a kind of client; each that is no library's is a program's."""
    return LIBRARIES.get(kind) or replace(_PROGRAM, title=kind, owner=f"{kind}'s")
