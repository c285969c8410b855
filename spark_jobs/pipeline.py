"""The measuring job, from the ledgers of a sweep to its result tables.

Spark distributes *units* (`spark_jobs.io.units`): a trial, or a part of a large one. A task reads a
unit's columns as arrays and measures it in one pass, `measure_unit`. What comes back is small:
counts, distributions, and the first anomalies of each kind and cause. A task adds up the units of a
trial, and `trial_tables` makes its result tables.

| stage | what it does | module |
|---|---|---|
| read | read a unit's rows; number its records | `io.units`, `io.arrays` |
| check | apply `read_committed` and expired records | `measures.transactions`, `.expiry` |
| fates | compare attempts with the log; count duplicates | `measures.fate_counts` |
| order | find the records that a later one precedes in the log | `measures.order` |
| reads | find what the consumer missed or received again | `measures.read_counts` |
| consumed | compare what consumers received with the log and each other | `measures.consumed` |
| compaction | find which absent records a later one of their key replaced | `measures.compaction` |
| latency | count both latencies by the microsecond | `measures.latency` |
| availability | find when each partition answered; stalls | `measures.availability`, `.stalls` |
| throughput | count what happened, in all and by tenth of a second | `measures.load_counts` |
| transactions | count each transaction's visible records | `measures.transactions` |
| groups, copies, keys, orders, loads, fields | of the trials that request them | `workloads` |
| anomalies | list the anomalous records | `causes.anomalous_records` |
| causes | find the cause of each anomaly, and the steps of each outage | `causes` |
| tables | everything that `experiments.ledger.result_tables.RESULTS` lists | here |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackbench.experiments.ledger.digests import InvalidLedger
from ackbench.experiments.ledger.location import open_location
from ackbench.experiments.ledger.result_tables import RESULTS, Anomaly, Side
from ackbench.experiments.ledger.validation import verify_files
from ackbench.spark_jobs.causes.anomalous_records import (
    APPENDED_RANGES,
    SuspectRecords,
    anomalous_reads,
    anomalous_records,
    appended_ranges,
    merge_ranges,
    ranges_of_rows,
)
from ackbench.spark_jobs.causes.evidence import trial_evidence
from ackbench.spark_jobs.causes.explanations import ExplainedAnomalies, explain_anomalies
from ackbench.spark_jobs.causes.outages import outage_rows
from ackbench.spark_jobs.io.arrays import Reads, UnitArrays, to_arrays
from ackbench.spark_jobs.io.ledgers import Ledger
from ackbench.spark_jobs.io.units import Unit, UnitRows, read_unit
from ackbench.spark_jobs.measures import (
    availability,
    compaction,
    consumed,
    expiry,
    fates,
    latency,
    order,
    reads,
    stalls,
    throughput,
    transactions,
    trials,
)
from ackbench.spark_jobs.measures.cells import cell_table
from ackbench.spark_jobs.measures.reads import ConsumerEnding, consumer_ending
from ackbench.spark_jobs.workloads import (
    assignments,
    copies,
    fields,
    groups,
    keys,
    loads,
    orders,
    serving,
)

Rows = Iterable[Mapping[str, Any]]
TrialTables = Mapping[str, pa.Table]
"""A trial's result tables by name, without trial_id."""


# A unit and a trial in an executor, where an invalid ledger is a result like any other.


def measured_unit(location: str, unit: Unit) -> tuple[str, UnitMeasures | InvalidLedger]:
    """Verify, read and measure a unit."""
    try:
        files = open_location(location).files
        verify_files(files, unit.ledger.folder, unit.ledger.record, unit.files)
        return unit.ledger.record.trial_id, measure_unit(read_unit(files, unit))
    except InvalidLedger as error:
        return unit.ledger.record.trial_id, error


def finished_trial(measures: UnitMeasures | InvalidLedger) -> TrialTables | InvalidLedger:
    """Return a trial's tables."""
    if isinstance(measures, InvalidLedger):
        return measures
    try:
        return trial_tables(measures)
    except InvalidLedger as error:
        return error


# One unit: one pass over its arrays.


@dataclass(frozen=True)
class UnitMeasures:
    """What was measured of a unit, or of several units of a trial together."""

    ledger: Ledger
    context: Mapping[str, pa.Table]
    """The tables of the entire trial with a few hundred rows: events, epochs, transactions, and
    served if the trial has it."""
    fate_counts: fates.FateCounts
    hidden_copies: int
    reordered_records: int
    read_counts: reads.ReadCounts
    consumed_reads: consumed.ConsumedReads
    compacted: Mapping[str, int | None]
    """Columns of `TRIALS`; a compacted topic has one unit only."""
    member_reads: int
    latencies: latency.Latencies
    answers: availability.AnswersBySide
    load_counts: throughput.Throughput
    timeline: throughput.Timeline
    visibilities: transactions.Visibilities
    group_counts: tuple[groups.GroupCounts, ...]
    """In the order of `spark_jobs.workloads.groups.groups_of`."""
    copy_counts: copies.CopiedCounts | None
    requested: Mapping[str, Sequence[Mapping[str, Any]]]
    """Rows of the result tables that only an undivided trial can have, by table."""
    anomalies: ExplainedAnomalies


def measure_unit(rows: UnitRows) -> UnitMeasures:
    """Measure a unit in one pass over its arrays."""
    record, events = rows.ledger.record, rows.tables["events"]
    ending, trial_groups = consumer_ending(events), groups.groups_of(events)

    stored = to_arrays(rows)
    unit = as_read_committed(stored)
    records, phases = len(unit.ids), record.phases
    by_members = groups.by_members(unit.reads, trial_groups)
    received, processed = unit.reads.where(~by_members), unit.reads.where(by_members)

    record_fates = fates.record_fates(unit.attempts, unit.log, unit.ids)
    reordered = order.reordered_rows(unit.log, rows.later_offsets, record_fates.copies)
    times = fates.count_rows(received.record, records)
    missed = reads.is_missed(record_fates, times)
    redelivered = reads.redelivered_rows(received, times)
    compacted = (
        compaction.compacted_records(unit.attempts, unit.log, record_fates)
        if record.compacted
        else None
    )
    suspects = SuspectRecords(
        record_fates,
        missed if ending and ending.at_end else None,
        reordered,
        redelivered,
        np.empty(0, np.int64) if compacted is None else compacted.lost_values,
    )
    judged = consumed.judged_reads(unit)
    anomalies = pa.concat_tables(
        [
            anomalous_records(replace(unit, reads=received), suspects),
            anomalous_reads(Anomaly.READ_LOST, judged.lost),
            anomalous_reads(Anomaly.READ_CONFLICT, judged.conflicting),
        ]
    )
    return UnitMeasures(
        ledger=rows.ledger,
        context={
            name: table
            for name, table in rows.tables.items()
            if name in {"events", "epochs", "transactions", "served"}
        },
        fate_counts=fates.count_fates(record_fates, unit.log),
        hidden_copies=len(unit.hidden),
        reordered_records=len(set(unit.log.record[reordered].tolist())),
        read_counts=reads.count_reads(received, times, missed, redelivered),
        consumed_reads=judged.counts,
        compacted=compaction.compaction_columns(compacted),
        member_reads=len(processed),
        latencies={
            **latency.ack_latencies(unit.attempts, phases),
            **latency.end_to_end_latencies(received, times, phases),
        },
        answers={
            **availability.acknowledgements(unit.attempts, phases),
            **availability.deliveries(unit, received, times, _gave_up_ns(ending)),
        },
        load_counts=throughput.count_throughput(unit.attempts, phases),
        timeline=throughput.count_timeline(unit.attempts, received, phases),
        visibilities=transactions.visibilities(unit.attempts, record_fates),
        group_counts=tuple(
            groups.count_group(
                group,
                groups.by_group(processed, group),
                unit.log,
                records,
                phases,
                record.begin_offsets,
            )
            for group in trial_groups
        ),
        copy_counts=(
            copies.count_copies(unit.log, unit.reads, unit.output, trial_groups, records)
            if unit.output
            else None
        ),
        requested=requested_rows(unit, processed if trial_groups else received, events),
        anomalies=explain_anomalies(
            anomalies,
            (
                trial_ranges(unit)
                if _has_loss_without_offset(anomalies)
                else APPENDED_RANGES.empty_table()
            ),
            trial_evidence(record, events, rows.tables["epochs"]),
        ),
    )


def as_read_committed(stored: UnitArrays) -> UnitArrays:
    """Return a unit with the outcomes that count for the guarantees.

    A record's outcome follows from its transaction's; it is unknown if the record expired before
    any consumer received it.
    """
    attempts = replace(
        stored.attempts,
        outcome=transactions.transactional_outcomes(
            stored.attempts, stored.rows.tables["transactions"]
        ),
    )
    begins = stored.rows.ledger.record.begin_offsets
    if begins:
        copies_of = fates.record_fates(attempts, stored.log, stored.ids).copies
        attempts = replace(
            attempts,
            outcome=expiry.outcomes_after_expiry(
                attempts, stored.log, copies_of, stored.rows.expired_places, begins
            ),
        )
    return replace(stored, attempts=attempts)


def trial_ranges(unit: UnitArrays) -> pa.Table:
    """Return what each leader epoch appended in the entire trial, of `APPENDED_RANGES`."""
    if unit.rows.others is None:
        return appended_ranges(unit.log)
    parts = map(ranges_of_rows, unit.rows.others.log_parts())
    return reduce(merge_ranges, parts, APPENDED_RANGES.empty_table())


def requested_rows(
    unit: UnitArrays, received: Reads, events: pa.Table
) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rows about keys, orders, lags, loads and fields, of a trial that requests them.

    Args:
        unit: an entire trial.
        received: the reads of a group's members, or else of the concurrent consumer.
        events: of the trial.
    """
    record, rows = unit.rows.ledger.record, {}
    if record.keying is not None:
        rows["orders"] = list(orders.order_rows(unit, received, record.keying))
        rows["lags"] = list(orders.lag_rows(received))
        by_second: loads.SlotCounts = {}
        if record.keying.placement:
            rows["keys"] = list(keys.key_rows(unit.attempts, record))
            by_second = loads.records_by_second(unit.log, record.phases.load_begin_ns)
        rows["loads"] = list(loads.load_rows(by_second, events))
        rows["skews"] = list(loads.skew_rows(rows["loads"], record))
    if unit.sent is not None and unit.replays is not None:
        rows["fields"] = list(
            fields.field_rows(unit.sent, unit.replays, unit.attempts, len(unit.ids))
        )
        rows["replays"] = list(fields.replay_rows(unit.replays, record.replays))
    return rows


def _gave_up_ns(ending: ConsumerEnding | None) -> int | None:
    """Return until when the consumer waited for records; `None`: unknown, or it read them all."""
    return None if ending is None or ending.at_end else ending.at_ns


def _has_loss_without_offset(anomalies: pa.Table) -> bool:
    lost = anomalies.filter((pc.field("kind") == "LOST") & pc.field("offset").is_null())
    return bool(lost.num_rows)


# The units of one trial.


def merge_units(
    one: UnitMeasures | InvalidLedger, other: UnitMeasures | InvalidLedger
) -> UnitMeasures | InvalidLedger:
    """Return what was measured of two units of a trial together; of two errors, one."""
    if isinstance(one, InvalidLedger):
        return one
    if isinstance(other, InvalidLedger):
        return other
    return UnitMeasures(
        ledger=one.ledger,
        context=one.context,
        fate_counts=fates.merge_fates(one.fate_counts, other.fate_counts),
        hidden_copies=one.hidden_copies + other.hidden_copies,
        reordered_records=one.reordered_records + other.reordered_records,
        read_counts=one.read_counts + other.read_counts,
        consumed_reads=one.consumed_reads + other.consumed_reads,
        compacted=one.compacted,
        member_reads=one.member_reads + other.member_reads,
        latencies=latency.merge_latencies(one.latencies, other.latencies),
        answers=availability.merge_answers(one.answers, other.answers),
        load_counts=one.load_counts + other.load_counts,
        timeline=throughput.merge_timelines(one.timeline, other.timeline),
        visibilities=transactions.merge_visibilities(one.visibilities, other.visibilities),
        group_counts=tuple(
            mine.merge(theirs)
            for mine, theirs in zip(one.group_counts, other.group_counts, strict=True)
        ),
        copy_counts=one.copy_counts + other.copy_counts
        if one.copy_counts and other.copy_counts
        else None,
        requested=one.requested,
        anomalies=one.anomalies + other.anomalies,
    )


def trial_tables(measures: UnitMeasures) -> TrialTables:
    """Return a trial's result tables.

    Raises:
        InvalidLedger: two counts of the same quantity differ.
    """
    record, events = measures.ledger.record, measures.context["events"]
    ending, trial_groups = consumer_ending(events), groups.groups_of(events)
    trial_stalls = stalls.stalls_of(record, events)
    gaps = list(availability.gap_rows(measures.answers, trial_stalls))
    row = {
        **trial_row(measures, gaps, trial_stalls, ending),
        **measures.consumed_reads.columns(),
        **measures.compacted,
    }
    trials.check_sums(
        measures.ledger,
        row,
        measures.latencies,
        measures.timeline,
        {
            "reads": measures.read_counts.reads,
            "read_records": measures.read_counts.read_records,
            "member_reads": measures.member_reads,
        },
        measures.anomalies.count,
    )
    evidence = trial_evidence(record, events, measures.context["epochs"])
    rows: dict[str, Rows] = {
        **measures.requested,
        "trials": [row],
        "fates": fates.fate_rows(measures.fate_counts) if _is_written(measures) else [],
        "latency": latency.quantile_rows(measures.latencies),
        "gaps": gaps,
        "readers": (
            availability.reader_rows(measures.answers, record, trial_stalls)
            if _can_wait(measures)
            else ()
        ),
        "outages": outage_rows(gaps, evidence),
        "stalls": stalls.stall_rows(trial_stalls),
        "groups": [
            assignments.group_row(group, counts, events, record.phases)
            for group, counts in zip(trial_groups, measures.group_counts, strict=True)
        ],
        "assignments": assignments.assignment_rows(trial_groups, events),
        "copies": [vars(measures.copy_counts)]
        if measures.copy_counts and _is_written(measures)
        else [],
        "serving": (
            serving.serving_rows(measures.context["served"], events)
            if "served" in measures.context
            else []
        ),
        "brokers": serving.broker_rows(events),
    }
    return {
        **{name: _table(name, found) for name, found in rows.items()},
        "histogram": latency.histogram_table(measures.latencies),
        "timeline": throughput.timeline_table(measures.timeline),
        "anomalies": measures.anomalies.first,
        "attribution": measures.anomalies.counts,
    }


def _can_wait(measures: UnitMeasures) -> bool:
    """Return whether the concurrent consumer can wait for what the producers have acknowledged.

    It can not if there is none, if it reads the copiers' output, or if records are visible only
    once their transaction is committed.
    """
    has_consumer = consumer_ending(measures.context["events"]) or measures.read_counts.reads
    return bool(
        has_consumer
        and measures.copy_counts is None
        and not measures.context["transactions"].num_rows
    )


def _is_written(measures: UnitMeasures) -> bool:
    """Return whether anything was attempted, stored or received."""
    counts = (
        measures.load_counts.attempted,
        sum(count.copies for count in measures.fate_counts.values()),
        measures.read_counts.reads,
    )
    return any(counts)


def trial_row(
    measures: UnitMeasures,
    gaps: Sequence[Mapping[str, Any]],
    trial_stalls: stalls.TrialStalls,
    ending: ConsumerEnding | None,
) -> Mapping[str, Any]:
    """Return a trial's row of `TRIALS`.

    A record counts as missed only if the concurrent consumer reached the end of the log.

    Args:
        measures: of the entire trial.
        gaps: its rows of `GAPS`.
        trial_stalls: its stalls.
        ending: how its concurrent consumer ended.
    """
    record, counted = measures.ledger.record, measures.read_counts
    return {
        **trials.identity_columns(record),
        **trials.fate_columns(measures.fate_counts),
        "hidden_copies": measures.hidden_copies,
        "reordered_records": measures.reordered_records,
        "missed_records": counted.missed_records if ending and ending.at_end else None,
        "redelivered_reads": counted.redelivered_reads if counted.reads else None,
        **groups.group_columns(measures.group_counts),
        **(copies.copier_columns(measures.copy_counts) if measures.copy_counts else {}),
        **transactions.transaction_columns(measures.visibilities, measures.context["transactions"]),
        "unavailable_ns": availability.unavailable_ns(
            record, measures.load_counts.attempted, gaps, trial_stalls
        ),
        "consumer_unavailable_ns": max(
            (gap["gap_ns"] for gap in gaps if gap["side"] == Side.CONSUMER), default=None
        ),
        **stalls.stall_columns(trial_stalls, record),
        **throughput.rates(measures.load_counts, record.phases),
    }


# The tables of a sweep.


def sweep_tables(by_trial: Mapping[str, TrialTables]) -> dict[str, pa.Table]:
    """Return the tables of `experiments.ledger.result_tables.RESULTS`.

    Args:
        by_trial: the tables of each trial, by trial id.
    """
    parts = list(sweep_parts(by_trial.items()))
    return {
        name: pa.concat_tables(
            [schema.empty_table(), *(part[name] for part in parts if name in part)]
        )
        for name, schema in RESULTS.items()
    }


def sweep_parts(trials: Iterable[tuple[str, TrialTables]]) -> Iterator[dict[str, pa.Table]]:
    """Yield the rows of each trial by table, and last those of the table of cells."""
    summaries = {name: [RESULTS[name].empty_table()] for name in ("trials", "latency")}
    for trial_id, tables in trials:
        part = {
            name: _with_trial_id(trial_id, table, RESULTS[name]) for name, table in tables.items()
        }
        for name, found in summaries.items():
            found.append(part[name])
        yield part
    yield {"cells": cell_table(*(pa.concat_tables(found) for found in summaries.values()))}


def _table(name: str, rows: Rows) -> pa.Table:
    """Return rows as a table with the result's columns, except trial_id."""
    schema = RESULTS[name]
    return pa.Table.from_pylist(
        list(rows), pa.schema([field for field in schema if field.name != "trial_id"])
    )


def _with_trial_id(trial_id: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
    ids = pa.array([trial_id]).take(pa.array([0] * len(table), pa.int64()))
    return table.append_column("trial_id", ids).select(schema.names).cast(schema)
