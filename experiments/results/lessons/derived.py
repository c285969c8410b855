"""Figures of a trial that are computed from several of its fields, for lessons that are data."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import gcd
from typing import Final

from ackbench.experiments.ledger.result_terms import OutageStep, Side
from ackbench.experiments.ledger.workload_tables import LoadQuantity
from ackbench.experiments.results.lessons.finding import (
    FindingInput,
    ack_p50_ms,
    acked_in_time_percent,
)
from ackbench.experiments.results.models import TrialResult
from ackbench.experiments.results.outages import observed_times_ns, steps_of_longest_gaps
from ackbench.experiments.results.rows import Row
from ackbench.experiments.sweep.workload import Workload

Bounds = tuple[float, float]
"""The lowest and the highest value that a figure may have; mostly equal."""
_NS_PER_S: Final = 1_000_000_000
_NS_PER_MS: Final = 1_000_000
_HELD_END_TXN: Final = re.compile(
    r"a relay held EndTxn v(?P<version>\d+) .* answered with error (?P<error>\d+)"
)


def _end_to_end_p50_ms(_data: FindingInput, trial: TrialResult) -> float | None:
    latency = trial.latency_ms.end_to_end
    return latency.p50 if latency else None


def _held_end_txn(_data: FindingInput, trial: TrialResult, part: str) -> Bounds | None:
    """Return the lowest and the highest version, or error code, of EndTxn requests in a relay."""
    held = [
        int(match[part])
        for sentence in (trial.fault.evidence if trial.fault else ())
        if (match := _HELD_END_TXN.match(sentence))
    ]
    return (min(held), max(held)) if held else None


def _idle_nodes(data: FindingInput, trial: TrialResult) -> set[int]:
    """Return the brokers with counters by which no client reports to be served."""
    serving = {row["node"] for row in data.rows("serving").get(trial.trial_id, ())}
    return {row["node"] for row in data.rows("brokers").get(trial.trial_id, ())} - serving


def _idle_brokers(data: FindingInput, trial: TrialResult) -> float | None:
    return len(_idle_nodes(data, trial)) or None


def _of_idle_brokers(data: FindingInput, trial: TrialResult, counter: str) -> float | None:
    """Return a counter of the brokers that served no client; None: there are none."""
    idle = _idle_nodes(data, trial)
    rows = data.rows("brokers").get(trial.trial_id, ())
    counts = [row["count"] for row in rows if row["node"] in idle and row["name"] == counter]
    return float(sum(counts)) if counts else None


def _changed_broker(data: FindingInput, trial: TrialResult) -> float | None:
    """Return whether consumers read partition 0, whose leader the fault stops, from several."""
    nodes = {
        row["node"]
        for row in data.rows("serving").get(trial.trial_id, ())
        if row["side"] == "consumer" and row["partition"] == 0
    }
    return len(nodes) > 1


def _lag_between_consumers_s(data: FindingInput, trial: TrialResult) -> float | None:
    """Return by how much the last consumer was behind the first one, at their medians."""
    medians = [row["median_ns"] for row in data.rows("lags").get(trial.trial_id, ())]
    return (max(medians) - min(medians)) / _NS_PER_S if medians else None


def _keys(data: FindingInput, trial: TrialResult, era: str = "after") -> list[Row]:
    """Return the row of the keys before or after a change of the partitions, if there were any."""
    rows = data.rows("keys").get(trial.trial_id, ())
    counted = "known_keys" if era == "after" else "keys"
    return [row for row in rows if row["era"] == era and row[counted]]


def _off_formula_keys(data: FindingInput, trial: TrialResult, era: str = "after") -> float | None:
    """Return the keys that are not where the better of both formulas puts them."""
    rows = _keys(data, trial, era)
    missed = [row["keys"] - max(row["murmur2_keys"], row["crc32_keys"]) for row in rows]
    return float(sum(missed)) if missed else None


def _expected_unmoved_percent(data: FindingInput, trial: TrialResult) -> float | None:
    """Return the part of the keys that theory predicts to keep their partition.

    These are the keys whose hash has the same remainder for both numbers of partitions.
    """
    before = int(str(trial.cell["partitions"]))
    for row in _keys(data, trial):
        after = int(row["partitions"])
        return 100 * gcd(before, after) / max(before, after)
    return None


def _unassigned_ms(data: FindingInput, trial: TrialResult) -> float | None:
    rows = data.rows("assignments").get(trial.trial_id, ())
    if not rows:
        return None
    return 1000 * longest_unassigned_s(rows, int(str(trial.cell["partitions"])))


def longest_unassigned_s(assignments: Sequence[Row], partitions: int) -> float:
    """Return the longest time in which one of the old partitions had no consumer, seconds.

    Counted is the time between two assignments of one partition.

    Args:
        assignments: rows of `ASSIGNMENTS` of one trial.
        partitions: number of partitions before the change; the new ones are not considered.
    """
    longest_ns = 0
    for partition in range(partitions):
        spans = sorted(
            (row["from_ns"], row["until_ns"])
            for row in assignments
            if row["partition"] == partition
        )
        gaps = (begin - until for (_, until), (begin, _) in pairwise(spans) if until is not None)
        longest_ns = max([longest_ns, *gaps])
    return longest_ns / _NS_PER_S


def _predicted_percent(data: FindingInput, trial: TrialResult, formula: str) -> float | None:
    """Return the keys that a formula should predict: all, or those that it hits by chance."""
    for row in _keys(data, trial, "before"):
        return 100.0 if row[f"{formula}_keys"] == row["keys"] else 100 / row["partitions"]
    return None


def _expected_unread(data: FindingInput, trial: TrialResult) -> float:
    """Return the records that a slow consumer cannot read before they are deleted, at least."""
    spec = data.plan.trial(trial.trial_id)
    load, topic = spec.workload, spec.topic
    retained_bytes = int(topic["retention.bytes"]) + int(topic["segment.bytes"])
    behind = (load.rate_records_per_s - _slow_records_per_s(load)) * load.duration_s
    return max(0.0, behind - retained_bytes / load.record_size_bytes)


def _relative_speed_percent(data: FindingInput, trial: TrialResult) -> float:
    """Return a slow consumer's speed as a part of the write rate."""
    load = data.plan.trial(trial.trial_id).workload
    return 100 * _slow_records_per_s(load) / load.rate_records_per_s


def _slow_records_per_s(load: Workload) -> float:
    return load.of_members.slow_records_per_s if load.of_members else 0.0


def _keeps_up(data: FindingInput, trial: TrialResult) -> float:
    return _relative_speed_percent(data, trial) >= 100  # noqa: PLR2004 - percent


def _unread(data: FindingInput, trial: TrialResult) -> float | None:
    """Return the records that the groups of a trial never received."""
    rows = data.rows("groups").get(trial.trial_id, ())
    return sum(row["shown_records"] - row["processed_records"] for row in rows) if rows else None


def _unread_when(
    data: FindingInput, trial: TrialResult, applies: Callable[[FindingInput, TrialResult], float]
) -> float | None:
    """Return the records that were never received, of a consumer to which something applies."""
    return _unread(data, trial) if applies(data, trial) else None


def _groups_hold(
    data: FindingInput, trial: TrialResult, statement: Callable[[Sequence[Row]], bool]
) -> float | None:
    """Return whether a statement holds for a trial's groups; None: it has none."""
    rows = sorted(
        data.rows("groups").get(trial.trial_id, ()), key=lambda row: int(row.get("group", 0))
    )
    return statement(rows) if rows else None


def _of_first_group(data: FindingInput, trial: TrialResult, column: str, unit: int) -> float | None:
    for row in data.rows("groups").get(trial.trial_id, ()):
        if row["group"] == 1:
            return float(row[column]) / unit
    return None


def _processed_all(groups: Sequence[Row]) -> bool:
    return len(groups) > 1 and all(
        row["processed_records"] == row["shown_records"] and not row["missed_records"]
        for row in groups
    )


def _session_ms(data: FindingInput, trial: TrialResult) -> float | None:
    """Return the session timeout of a trial's group members; None: the default."""
    spec = next((one for one in data.plan.trials if one.trial_id == trial.trial_id), None)
    if spec is None:
        return None
    value = (
        spec.cluster.broker.get("group.consumer.session.timeout.ms")
        if trial.cell.get("group.protocol") == "consumer"
        else spec.consumer.get("session.timeout.ms")
    )
    return float(value) if value else None


def _records_per_batch(data: FindingInput, trial: TrialResult) -> float | None:
    rows = data.rows("skews").get(trial.trial_id, ())
    total = {row["of"]: float(row["total"]) for row in rows}
    batches = total.get(LoadQuantity.BATCHES)
    return total[LoadQuantity.RECORDS] / batches if batches else None


def _expected_load(data: FindingInput, trial: TrialResult) -> float | None:
    """Return the predicted load of the fullest partition; None where theory predicts none.

    Round robin: the mean. With a hot key: its share in one partition, and the rest spread evenly.
    """
    share = float(str(trial.cell.get("keys.hot_key_share") or 0))
    if trial.cell.get("keys.count") and share:
        rows = data.rows("skews").get(trial.trial_id, ())
        return share * max(int(row["partitions"]) for row in rows) + 1 - share
    return 1.0 if trial.cell.get("keys.round_robin") else None


def _waits_for(data: FindingInput, trial: TrialResult, part: float) -> float | None:
    """Return whether an outage lasted at least this part of `replica.lag.time.max.ms`.

    The leader counts from the follower's last fetch, which may be a little older than the last
    acknowledgement.
    """
    del data
    if trial.unavailable_ms is None:
        return None
    return trial.unavailable_ms >= part * float(str(trial.cell["replica.lag.time.max.ms"]))


def _elected_before_restart(data: FindingInput, trial: TrialResult) -> bool:
    """Return whether a leader was elected before the first crashed broker was started again."""
    steps = steps_of_longest_gaps(data.rows("outages").get(trial.trial_id, ()))
    at_ns = observed_times_ns(steps.get((0, Side.PRODUCER), {}))  # the fault's partition is 0
    if OutageStep.ELECTED not in at_ns or OutageStep.LAST_BEFORE not in at_ns:
        return False
    restarts_s = [
        float(str(value))
        for name, value in trial.fault.parameters.items()
        if name.rpartition(".")[2] == "restart_after_s"
    ]
    elected_after_ns = at_ns[OutageStep.ELECTED] - at_ns[OutageStep.LAST_BEFORE]
    return elected_after_ns < min(restarts_s, default=0.0) * _NS_PER_S


def _readable(data: FindingInput, trial: TrialResult) -> Bounds | None:
    """Return whether a topic was readable before the restart; (0, 1): the trial cannot tell."""
    writable, readable = trial.recovered_before_heal, trial.readable_before_heal
    if writable is None:
        return None
    if readable is None and not writable and not _elected_before_restart(data, trial):
        readable = False  # nothing was acknowledged, and no broker led the partition
    return (0, 1) if readable is None else (readable, readable)


def _readable_if_known(data: FindingInput, trial: TrialResult) -> float | None:
    low, high = _readable(data, trial) or (0, 1)
    return low if low == high else None


def _enough_alive(_data: FindingInput, trial: TrialResult) -> bool:
    """Return whether as many replicas are alive as the high watermark needs to advance."""
    replicas, minimum = (
        int(str(trial.cell[axis])) for axis in ("replication.factor", "min.insync.replicas")
    )
    return len(trial.fault.targets) <= replicas - minimum


def _some_alive(trial: TrialResult) -> bool:
    return len(trial.fault.targets) < int(str(trial.cell["replication.factor"]))


def _as_expected(data: FindingInput, trial: TrialResult) -> float | None:
    """Return whether nothing of a trial differs from theory; what is unknown does not."""
    readable = _readable(data, trial)
    if readable is None:
        return None
    for_readers = _enough_alive(data, trial)
    for_writers = for_readers if trial.cell.get("acks", "all") == "all" else _some_alive(trial)
    return readable in {(for_readers, for_readers), (0, 1)} and (
        trial.recovered_before_heal == for_writers
    )


def _tells(data: FindingInput, trial: TrialResult) -> float | None:
    """Return 1 if a trial tells what is claimed of its topic.

    That a topic is readable has to be seen. Where even writes are not possible, nothing new can be
    read, and the trial tells that it was not written.
    """
    unwritten = not _enough_alive(data, trial) and trial.recovered_before_heal is False
    return 1 if unwritten or _readable_if_known(data, trial) is not None else None


def _hidden(data: FindingInput, trial: TrialResult) -> float:
    """Return whether records were acknowledged that no consumer received before the restart."""
    return (
        bool(trial.recovered_before_heal)
        and _readable_if_known(data, trial) == 0
        and not _enough_alive(data, trial)
    )


DERIVED: Final[dict[str, Callable[[FindingInput, TrialResult], float | Bounds | None]]] = {
    "ack_p50_ms": lambda _data, trial: ack_p50_ms(trial),
    "end_to_end_p50_ms": _end_to_end_p50_ms,
    "acked_in_time_percent": lambda _data, trial: acked_in_time_percent(trial),
    "atomicity_violations": lambda _data, trial: trial.atomicity_violations,
    "idle_brokers": _idle_brokers,
    "idle_brokers_sent_bytes": partial(_of_idle_brokers, counter="BytesOutPerSec"),
    "idle_brokers_received_records": partial(_of_idle_brokers, counter="MessagesInPerSec"),
    "changed_broker": _changed_broker,
    "lag_between_consumers_s": _lag_between_consumers_s,
    "off_formula_keys": _off_formula_keys,
    "off_formula_keys_before": partial(_off_formula_keys, era="before"),
    "expected_unmoved_percent": _expected_unmoved_percent,
    "unassigned_ms": _unassigned_ms,
    "expected_murmur2_percent": partial(_predicted_percent, formula="murmur2"),
    "expected_crc32_percent": partial(_predicted_percent, formula="crc32"),
    "expected_unread": _expected_unread,
    "relative_speed_percent": _relative_speed_percent,
    "keeps_up": _keeps_up,
    "unread": _unread,
    "unread_seen": lambda data, trial: _unread(data, trial) or None,
    "unread_though_fast": partial(_unread_when, applies=_keeps_up),
    "unread_when_behind": partial(_unread_when, applies=_expected_unread),
    "held_by_one": partial(
        _groups_hold, statement=lambda groups: not any(row["overlap_ns"] for row in groups)
    ),
    "member_has_several": partial(
        _groups_hold, statement=lambda groups: groups[0]["max_partitions"] > 1
    ),
    "groups_processed_all": partial(_groups_hold, statement=_processed_all),
    "one_member_idle": partial(
        _groups_hold, statement=lambda groups: groups[0]["idle_members"] == 1
    ),
    "read_all_without_group": lambda _data, trial: (
        None if trial.missed is None else trial.missed == 0
    ),
    "overlap_ms": partial(_of_first_group, column="overlap_ns", unit=_NS_PER_MS),
    "overlap_seen_ms": lambda data, trial: (
        _of_first_group(data, trial, "overlap_ns", _NS_PER_MS) or None
    ),
    "processing_gap_ms": partial(_of_first_group, column="processing_gap_ns", unit=_NS_PER_MS),
    "processed_again": partial(_of_first_group, column="redelivered_reads", unit=1),
    "session_ms": _session_ms,
    "records_per_batch": _records_per_batch,
    "expected_load": _expected_load,
    "waits_until_removed": partial(_waits_for, part=0.9),
    "waits_for_half": partial(_waits_for, part=0.5),
    "crashed_brokers": lambda _data, trial: len(trial.fault.targets),
    "readable": _readable,
    "readable_if_known": _readable_if_known,
    "as_expected": _as_expected,
    "tells_of_survival": _tells,
    "hidden": _hidden,
    "lost_if_watched": lambda _data, trial: (
        None if trial.recovered_before_heal is None else trial.lost
    ),
    "beyond_minimum": lambda data, trial: _some_alive(trial) and not _enough_alive(data, trial),
    "lag_time_max_ms": lambda _data, trial: float(str(trial.cell["replica.lag.time.max.ms"])),
    "end_txn_version": partial(_held_end_txn, part="version"),
    "end_txn_error": partial(_held_end_txn, part="error"),
}
"""Figures that are computed from several fields of a trial."""
