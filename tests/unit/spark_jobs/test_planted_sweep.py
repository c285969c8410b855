"""Planted sweeps with known content: the job finds exactly what was planted."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.golden_files import Says

from ackbench.experiments.ledger.result_tables import RESULTS, SUMMED_COLUMNS
from ackbench.experiments.ledger.trial_manifest import FaultEvidence, Phases, Status
from ackbench.spark_jobs.io.ledgers import InvalidLedger, open_ledgers
from ackbench.spark_jobs.io.units import Unit
from ackbench.spark_jobs.pipeline import sweep_tables, tables_or_error, verify_and_measure
from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTrial,
)

Measure = Callable[..., dict[str, pa.Table]]
MS = 1_000_000
OTHER_UNITS = ("_reads", "_transactions")

EVERYTHING = PlantedTrial(
    "000-everything",
    attempts=(
        # Acknowledged: 0 stored once, 1 twice, 2 lost, 3 corrupt, which is also lost.
        *(PlantedAttempt(1, seq) for seq in range(4)),
        # Unknown: 4 stored, 5 not, 6 three times.
        *(PlantedAttempt(1, seq, "unknown", settled_ns=None) for seq in range(4, 7)),
        # Rejected: 7 stored, 8 not.
        *(PlantedAttempt(1, seq, "rejected") for seq in range(7, 9)),
    ),
    log=(
        *(PlantedLogRow(1, seq, offset) for offset, seq in enumerate((0, 1, 1, 4, 6, 6, 6, 7))),
        PlantedLogRow(1, 3, 8, intact=False),
        PlantedLogRow(None, None, 9),  # of an external producer
        PlantedLogRow(1, 64, 10),  # an id that was never attempted, twice
        PlantedLogRow(1, 64, 11),
    ),
)


def test_every_planted_fate_is_found(measured: Measure) -> None:
    """The records and copies of each fate are counted."""
    fates = {
        row["fate"]: (row["records"], row["duplicated_records"], row["copies"])
        for row in measured(EVERYTHING)["fates"].to_pylist()
    }
    assert fates == {
        "DELIVERED_ONCE": (1, 0, 1),
        "DUPLICATED": (1, 1, 2),
        "LOST": (2, 0, 0),
        "UNKNOWN_PRESENT": (2, 1, 4),
        "UNKNOWN_ABSENT": (1, 0, 0),
        "REJECTED_PRESENT": (1, 0, 1),
        "REJECTED": (1, 0, 0),
        "ABORTED": (0, 0, 0),
        "ABORTED_VISIBLE": (0, 0, 0),
        "PHANTOM": (3, 0, 3),
        "CORRUPT": (1, 0, 1),
    }


def test_a_trial_adds_up_its_fates(measured: Measure) -> None:
    """Loss is an interval: an unknown record that is absent may have been acknowledged."""
    (trial,) = measured(EVERYTHING)["trials"].to_pylist()
    counted = {name: trial[name] for name in SUMMED_COLUMNS if not name.endswith(OTHER_UNITS)}
    assert counted == {
        "attempted_records": 9,
        "acked_records": 4,
        "rejected_records": 2,
        "unknown_records": 3,
        "aborted_records": 0,
        "aborted_visible_records": 0,
        "lost_low_records": 2,
        "lost_high_records": 3,
        "duplicates": 3,
        "duplicated_records": 2,
        "log_records": 12,
        "phantom_copies": 3,
        "corrupt_copies": 1,
        "hidden_copies": 0,
        "reordered_records": 0,
        "missed_records": None,
        "group_missed_records": None,
        "compacted_records": None,
        "lost_values": None,
    }


def test_trials_are_measured_independently(measured: Measure) -> None:
    """Equal ids in two trials are different records."""
    lossy = PlantedTrial(
        "000-lossy", [PlantedAttempt(0, 0), PlantedAttempt(0, 1)], [PlantedLogRow(0, 0, 0)]
    )
    complete = PlantedTrial(
        "001-complete",
        [PlantedAttempt(0, 0), PlantedAttempt(0, 1)],
        [PlantedLogRow(0, 0, 0), PlantedLogRow(0, 1, 1)],
    )
    assert measured(lossy, complete)["trials"]["lost_low_records"].to_pylist() == [1, 0]


def test_producers_are_measured_independently(measured: Measure) -> None:
    """Equal sequence numbers of two producers are different records."""
    trial = PlantedTrial(
        "000-two",
        [PlantedAttempt(0, 0), PlantedAttempt(1, 0)],
        [PlantedLogRow(1, 0, 0), PlantedLogRow(1, 0, 1)],
    )
    fates = {row["fate"]: row["records"] for row in measured(trial)["fates"].to_pylist()}
    assert (fates["LOST"], fates["DUPLICATED"]) == (1, 1)


def test_latencies_are_measured_by_phase(measured: Measure) -> None:
    """Here one record is sent before the fault, one during it, and none after it."""
    phases = Phases(
        load_begin_ns=0,
        load_end_ns=9 * MS,
        fault_begin_ns=5 * MS,
        fault_end_ns=9 * MS,
        settled_ns=20 * MS,
        healthy_ns=20 * MS,
    )
    attempts = [
        PlantedAttempt(0, 0, intended_ns=0, settled_ns=2 * MS),
        PlantedAttempt(0, 1, intended_ns=6 * MS, settled_ns=20 * MS),
    ]
    reads = [PlantedRead(0, 0, 0, 0, 3 * MS), PlantedRead(0, 0, 0, 0, 4 * MS)]
    found = measured(
        PlantedTrial(
            "000-phases", attempts, [PlantedLogRow(0, 0, 0), PlantedLogRow(0, 1, 1)], reads, phases
        )
    )["latency"].to_pylist()
    maxima = {(row["measure"], row["phase"]): (row["records"], row["max_us"]) for row in found}
    assert maxima == {
        ("ack", "all"): (2, 14_000),
        ("ack", "before"): (1, 2_000),
        ("ack", "during"): (1, 14_000),
        ("end_to_end", "all"): (1, 3_000),
        ("end_to_end", "before"): (1, 3_000),
    }


def test_a_trial_without_reads_has_no_end_to_end_latency(measured: Measure) -> None:
    """It has no row, rather than 0."""
    trial = PlantedTrial("000-unread", [PlantedAttempt(0, 0)], [PlantedLogRow(0, 0, 0)])
    assert set(measured(trial)["latency"]["measure"].to_pylist()) == {"ack"}


def test_a_trial_without_any_acknowledgement_was_unavailable_throughout(measured: Measure) -> None:
    """This holds even if no record was assigned to a partition."""
    trial = PlantedTrial(
        "000-dark", [PlantedAttempt(0, 0, "unknown", settled_ns=None, partition=None)]
    )
    assert measured(trial)["trials"]["unavailable_ns"].to_pylist() == [trial.phases.settled_ns]


def test_a_void_trial_is_counted_but_its_values_are_not_used(measured: Measure) -> None:
    """The cell's sums are those of its sealed trial."""
    sealed = PlantedTrial(
        "000-sealed", [PlantedAttempt(0, 0), PlantedAttempt(0, 1)], [PlantedLogRow(0, 0, 0)]
    )
    void = PlantedTrial(
        "001-void",
        [PlantedAttempt(0, 0)],
        status=Status.VOID,
        fault=FaultEvidence(kind="leader-crash", took_effect=False),
    )
    (cell,) = measured(sealed, void)["cells"].to_pylist()
    assert (
        cell["sealed_trials"],
        cell["void_trials"],
        cell["attempted_records"],
        cell["lost_low_records"],
        cell["trials_with_loss"],
    ) == (1, 1, 2, 1, 1)


def test_a_cell_has_median_and_maximum_of_its_trials(measured: Measure) -> None:
    """Here over three repeats with latencies of 1, 2 and 9 ms."""
    repeats = [
        PlantedTrial(
            f"{n:03d}-repeat",
            [PlantedAttempt(0, 0, settled_ns=ms * MS)],
            [PlantedLogRow(0, 0, 0)],
            repeat=n,
        )
        for n, ms in enumerate((9, 1, 2))
    ]
    (cell,) = measured(*repeats)["cells"].to_pylist()
    assert (
        cell["ack_p99_us_median"],
        cell["ack_p99_us_max"],
        cell["end_to_end_p99_us_median"],
    ) == (2_000, 9_000, None)


def test_equal_cells_are_one_whatever_the_order_of_their_axes(measured: Measure) -> None:
    """A union of sweeps may list the axes in another order."""
    one = PlantedTrial(
        "000-one",
        [PlantedAttempt(0, 0)],
        [PlantedLogRow(0, 0, 0)],
        cell={"acks": 1, "fault": "none"},
    )
    other = PlantedTrial(
        "001-other",
        [PlantedAttempt(0, 0)],
        [PlantedLogRow(0, 0, 0)],
        cell={"fault": "none", "acks": 1},
    )
    assert measured(one, other)["cells"]["sealed_trials"].to_pylist() == [2]


def test_an_id_that_was_attempted_twice_makes_the_ledger_invalid(measured: Measure) -> None:
    """The fates do not add up to the attempts: the job fails and names the trial."""
    with pytest.raises(
        InvalidLedger,
        match=r"^trial 000-twice: attempts.parquet has 2 rows, but the fates add up to 1 records$",
    ):
        measured(
            PlantedTrial(
                "000-twice", [PlantedAttempt(0, 0), PlantedAttempt(0, 0)], [PlantedLogRow(0, 0, 0)]
            )
        )


def test_an_acked_record_that_never_settled_makes_the_ledger_invalid(measured: Measure) -> None:
    """Otherwise it would silently be missing from the latencies."""
    with pytest.raises(
        InvalidLedger,
        match=r"^trial 000-unsettled: .* 1 acked records, but settled_ns for 0 of them$",
    ):
        measured(
            PlantedTrial(
                "000-unsettled", [PlantedAttempt(0, 0, settled_ns=None)], [PlantedLogRow(0, 0, 0)]
            )
        )


def test_unreadable_data_are_reported_by_trial_and_file(says: Says, tmp_path: Path) -> None:
    """The footer is valid, so only reading the file fails."""
    trial = PlantedTrial(
        "000-broken",
        [PlantedAttempt(0, seq) for seq in range(999)],
        [PlantedLogRow(0, seq, seq) for seq in range(999)],
    ).plant(tmp_path)
    content = bytearray((trial / "log.parquet").read_bytes())
    content[4:200] = bytes(196)
    (trial / "log.parquet").write_bytes(content)
    ledgers = open_ledgers(str(tmp_path))
    _, found = verify_and_measure(ledgers.location, Unit(ledgers.trials[0]))
    says(str(found))


def test_tables_have_the_schemas_of_the_results(measured: Measure) -> None:
    """All tables exist, also for a trial that has nothing but one attempt."""
    tables = measured(PlantedTrial("000-bare", [PlantedAttempt(0, 0, "unknown", settled_ns=None)]))
    assert {
        name: table.select(RESULTS[name].names).cast(RESULTS[name]).schema.names
        for name, table in tables.items()
    } == {name: schema.names for name, schema in RESULTS.items()}


def test_ledgers_in_memory_give_the_same_results_as_files(
    measured: Measure, tmp_path: Path
) -> None:
    """The same trial is measured from its rows and from its files."""
    EVERYTHING.plant(tmp_path)
    ledgers = open_ledgers(str(tmp_path))
    trial_id, measures = verify_and_measure(ledgers.location, Unit(ledgers.trials[0]))
    finished = tables_or_error(measures)
    assert not isinstance(finished, InvalidLedger)
    sealed = sweep_tables({trial_id: finished})
    assert {name: table.to_pylist() for name, table in measured(EVERYTHING).items()} == {
        name: table.to_pylist() for name, table in sealed.items()
    }


def test_missed_records_are_known_only_if_the_consumer_reached_the_end(measured: Measure) -> None:
    """It received one of two records; the last trial has no event of its end."""
    attempts, log, reads = (
        [PlantedAttempt(0, 0), PlantedAttempt(0, 1)],
        [PlantedLogRow(0, 0, 0), PlantedLogRow(0, 1, 1)],
        [PlantedRead(0, 0, 0)],
    )
    events: tuple[list[PlantedEvent], ...] = (
        [_reader(at_end=True)],
        [_reader(at_end=False)],
        [_reader(at_end=True), _reader(at_end=False)],
        [],
    )
    trials = [
        PlantedTrial(f"{number:03d}-reader", attempts, log, reads, events=of_consumers)
        for number, of_consumers in enumerate(events)
    ]
    assert measured(*trials)["trials"]["missed_records"].to_pylist() == [1, None, None, None]


def test_a_count_unknown_in_one_trial_is_unknown_in_its_cell(measured: Measure) -> None:
    """A sum with an unknown value is null."""
    reads = [PlantedRead(0, 0, 0), PlantedRead(0, 0, 0, received_ns=3 * MS)]
    known = PlantedTrial(
        "000-known",
        [PlantedAttempt(0, 0)],
        [PlantedLogRow(0, 0, 0)],
        reads,
        events=[_reader(at_end=True)],
    )
    unread = PlantedTrial("001-unread", [PlantedAttempt(0, 0)], [PlantedLogRow(0, 0, 0)])
    (known_cell,), (unread_cell,) = (
        measured_cells.to_pylist()
        for measured_cells in (measured(known)["cells"], measured(unread)["cells"])
    )
    assert (
        known_cell["missed_records"],
        known_cell["redelivered_reads"],
        unread_cell["missed_records"],
        unread_cell["redelivered_reads"],
    ) == (0, 1, None, None)


def test_order_and_reads_are_counted_by_trial(measured: Measure) -> None:
    """Record 0 is out of order, 1 was received twice, and 2 never."""
    attempts = [PlantedAttempt(0, seq) for seq in range(3)]
    log = [PlantedLogRow(0, seq, offset) for offset, seq in enumerate((1, 0, 2))]
    reads = [PlantedRead(0, 1, 0), PlantedRead(0, 0, 1), PlantedRead(0, 1, 0, received_ns=3 * MS)]
    (trial,) = measured(
        PlantedTrial("000-late", attempts, log, reads, events=[_reader(at_end=True)])
    )["trials"].to_pylist()
    assert (trial["reordered_records"], trial["redelivered_reads"], trial["missed_records"]) == (
        1,
        1,
        1,
    )


def test_the_timeline_and_the_histograms_add_up_to_the_trial(measured: Measure) -> None:
    """There is a record every 40 ms; all are acknowledged after 2 ms, every other one is read."""
    attempts = [
        PlantedAttempt(0, seq, intended_ns=at, sent_ns=at, settled_ns=at + 2 * MS)
        for seq in range(9)
        for at in (seq * 40 * MS,)
    ]
    reads = [
        PlantedRead(0, row.seq, row.seq, row.intended_ns, row.intended_ns + 3 * MS)
        for row in attempts[::2]
    ]
    found = measured(
        PlantedTrial(
            "000-steady", attempts, [PlantedLogRow(0, seq, seq) for seq in range(9)], reads
        )
    )
    slots = [
        (row["slot"], row["sent_records"], row["acked_records"], row["read_records"])
        for row in found["timeline"].sort_by("slot").to_pylist()
    ]
    assert slots == [(0, 3, 3, 2), (1, 2, 2, 1), (2, 3, 3, 1), (3, 1, 1, 1)]
    histogram = {
        (row["measure"], row["phase"], row["from_us"]): (row["to_us"], row["records"])
        for row in found["histogram"].to_pylist()
    }
    assert histogram == {("ack", "all", 2000): (2008, 9), ("end_to_end", "all", 2992): (3008, 5)}


def test_an_outage_is_measured_for_producers_and_for_the_consumer(measured: Measure) -> None:
    """The last acknowledgement is at 5 ms, the last read at 9 ms; the consumer stops at 30 ms.

    The second record is in the log, and the consumer did not receive it.
    """
    attempts = [
        PlantedAttempt(0, 0, settled_ns=5 * MS),
        PlantedAttempt(0, 1, "unknown", settled_ns=8 * MS),
    ]
    trial = PlantedTrial(
        "000-sides",
        attempts,
        [PlantedLogRow(0, 0, 0), PlantedLogRow(0, 1, 1)],
        [PlantedRead(0, 0, 0, received_ns=9 * MS)],
        events=[_reader(at_end=False, at_ns=30 * MS)],
    )
    found = measured(trial)
    gaps = {
        row["side"]: (row["records"], row["gap_ns"], row["began_ns"], row["answered"])
        for row in found["gaps"].to_pylist()
    }
    assert gaps == {"producer": (1, 5 * MS, 0, True), "consumer": (1, 21 * MS, 9 * MS, False)}
    assert found["trials"]["unavailable_ns"].to_pylist() == [5 * MS]


def _reader(*, at_end: bool, at_ns: int = 10**10) -> PlantedEvent:
    """The event that reports how the concurrent consumer ended."""
    return PlantedEvent(
        at_ns, "consumer_end", detail=json.dumps({"records": 1, "at_end": at_end, "where": ""})
    )
