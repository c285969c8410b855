"""What each kind of client under test can do, as data.

Who needs to know asks for the trait, not for the name: another kind is another entry here. Rules of
the contract name kinds instead, because their sources do; and what a library calls its settings is
in `trial.clients.settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

ClientKind = Literal["librdkafka", "java"]
DEFAULT_CLIENT: Final[ClientKind] = "librdkafka"
FINAL_READER: Final[ClientKind] = "librdkafka"
"""Reads each topic to its end, whichever client is under test."""
_MIB: Final = 2**20


@dataclass(frozen=True)
class ClientTraits:
    """What one kind of client can do, and what it needs."""

    title: str
    """Its name in sentences."""
    owner: str
    """The same as a possessive, as in `Java's default`."""
    process_bytes: int
    """Memory of a producer or consumer process."""
    reports_in_text: bool = False
    """Whether it is a program that prints a line per record.

    It generates the records' values itself: numbers as text, at a whole rate, with keys that it
    takes in turn. So the workload chooses neither size nor keys nor partitions, values carry no
    header, and a consumer does not report that it is behind a transaction's marker.
    """
    output_record_bytes: int = 0
    """Size of what such a program prints per record."""
    attempts_survive: bool = True
    """Whether the ledger of a producer's attempts is complete when its process is killed.

    Only then can a fault kill and replace it, or a reader follow it.
    """
    has_members: bool = True
    """Whether members of consumer groups and copiers run on it; a fault can hold each of them."""
    adds_partitions_itself: bool = True
    """Whether it sends AddPartitionsToTxn also to brokers that do without (KIP-890)."""
    planned_security: bool = True
    """Whether security properties are among its planned settings; else it gets them with the
    addresses."""
    comes_with_kafka: bool = False
    """Whether its version is that of Kafka's jars."""


CLIENTS: Final[Mapping[ClientKind, ClientTraits]] = MappingProxyType(
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
            has_members=False,
            adds_partitions_itself=False,
            planned_security=False,
            comes_with_kafka=True,
        ),
    }
)
