"""Planted anomalies get their phase, leader, ISR and cause, and are counted by them."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest
from support.builders.crash import (
    CRASH,
    LINEAGE,
    MS,
    PHASES,
    AnomalousRecord,
    anomalies_table,
    attributed,
)

from ackbench.experiments.ledger.result_tables import ANOMALIES, ATTRIBUTION
from ackbench.experiments.ledger.result_terms import Anomaly
from ackbench.spark_jobs.causes.explanations import attribution_table


def test_a_lost_record_has_the_state_at_its_acknowledgement() -> None:
    """Leader 2 acknowledged it in epoch 5 during the fault, and truncated it on its return."""
    (row,) = attributed(AnomalousRecord(offset=80))
    assert {name: row[name] for name in ATTRIBUTION.names if name in row} == {
        "kind": "LOST",
        "partition": 0,
        "phase": "during",
        "leader": 2,
        "leader_epoch": 5,
        "isr": "1,2",
        "cause": "TRUNCATED",
        "truncated_to": 80,
        "truncated_by": 2,
    }


def test_phases_end_where_the_next_one_begins() -> None:
    """A record whose time is unknown has no phase."""
    rows = attributed(
        *(
            AnomalousRecord(seq=seq, at_ns=at)
            for seq, at in enumerate((100 * MS - 1, 100 * MS, 500 * MS - 1, 500 * MS, None))
        )
    )
    assert [row["phase"] for row in rows] == ["before", "during", "during", "after", None]


def test_a_fault_that_never_ended_lasts_to_the_end_of_the_trial() -> None:
    """A record without a partition has a phase like any other."""
    rows = attributed(
        AnomalousRecord(at_ns=99 * MS),
        AnomalousRecord(),
        AnomalousRecord(at_ns=899 * MS),
        AnomalousRecord(partition=None),
        phases=PHASES.model_copy(update={"fault_end_ns": None}),
    )
    assert [(row["phase"], row["leader"]) for row in rows] == [
        ("before", 2),
        ("during", 2),
        ("during", 1),
        ("during", None),
    ]


@pytest.mark.parametrize("kind", Anomaly)
def test_the_leader_of_a_record_in_the_log_follows_from_its_offset(kind: Anomaly) -> None:
    """For others it follows from the time: epoch 5 led at 150 ms; offset 90 is in epoch 6."""
    absent = {Anomaly.LOST, Anomaly.UNKNOWN_ABSENT, Anomaly.VALUE_LOST}
    there = kind not in {*absent, Anomaly.READ_LOST, Anomaly.READ_CONFLICT}
    assert [
        row["leader_epoch"]
        for row in attributed(
            AnomalousRecord(kind.value, offset=90), epochs=LINEAGE[2:], events=CRASH[:2]
        )
    ] == [6 if there else 5]


def test_unknown_values_are_null() -> None:
    """This record has no partition, and its trial has no events."""
    (row,) = attributed(AnomalousRecord("UNKNOWN_ABSENT", partition=None), events=(), epochs=())
    assert (row["cause"], row["leader"], row["leader_epoch"], row["isr"], row["truncated_to"]) == (
        "UNATTRIBUTED",
        None,
        None,
        None,
        None,
    )


def test_without_anomalies_the_table_is_empty() -> None:
    """It has the columns of its schema, except trial_id."""
    assert anomalies_table().schema.equals(
        pa.schema([field for field in ANOMALIES if field.name != "trial_id"])
    )


def test_attribution_counts_anomalies_with_everything_in_common() -> None:
    """Three truncated records, one acknowledged before the fault, and one of unknown cause."""
    table = attribution_table(
        anomalies_table(
            AnomalousRecord(seq=1, offset=81, at_ns=160 * MS),
            AnomalousRecord(seq=2, offset=90),
            AnomalousRecord(seq=3, offset=80, at_ns=99 * MS),
            AnomalousRecord(seq=4, offset=3),
        )
    )
    named = (
        "phase",
        "cause",
        "truncated_by",
        "records",
        "first_offset",
        "last_offset",
        "first_at_ns",
        "last_at_ns",
    )
    assert [tuple(row[name] for name in named) for row in table.to_pylist()] == [
        ("before", "TRUNCATED", 2, 1, 80, 80, 99 * MS, 99 * MS),
        ("during", "TRUNCATED", 2, 2, 81, 90, 150 * MS, 160 * MS),
        ("during", "UNATTRIBUTED", None, 1, 3, 3, 150 * MS, 150 * MS),
    ]


def test_attribution_adds_up_to_the_anomalies() -> None:
    """Rows with nulls are a group like any other."""
    rows = [
        AnomalousRecord(kind, seq=seq, offset=offset)
        for kind in ("LOST", "UNKNOWN_ABSENT", "PHANTOM")
        for seq, offset in enumerate((None, 5, 85))
    ]
    assert sum(attribution_table(anomalies_table(*rows))["records"].to_pylist()) == len(rows)


def test_equal_anomalies_give_equal_tables_whatever_their_order() -> None:
    """Units report anomalies in any order."""
    places, others = ((3, 80, 1), (1, 85, 0), (2, None, None), (0, 3, 0)), product((0, 1), (1, 2))
    rows = [
        AnomalousRecord(seq=seq, offset=offset, partition=partition, producer=producer, at_ns=at)
        for producer, at in others
        for seq, offset, partition in places
    ]
    rows += [AnomalousRecord(seq=seq, offset=offset) for seq in (7, 8) for offset in (5, 6)]
    assert anomalies_table(*rows).equals(anomalies_table(*reversed(rows)))
