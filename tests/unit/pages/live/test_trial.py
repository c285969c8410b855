"""The figures of a running trial are those of its files: exactly, and whatever is torn."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders.live_trials import (
    BEGIN_NS,
    MS,
    PlantedAttempts,
    a_running_sweep,
    note,
    receive,
)
from support.builders.records import a_spec

from ackbench.experiments.pages.live import mapped
from ackbench.experiments.pages.live.mapped import AttemptsFollower
from ackbench.experiments.pages.live.slots import LatencyCounter, SlotCounter
from ackbench.experiments.pages.live.trial import LiveTrial, TrialFigures, TrialFollower
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import FaultRequest, TrialSpec
from ackbench.experiments.sweep.workload import GroupMembers
from ackbench.experiments.trial.clients.consumer.reads import ReadRow
from ackbench.experiments.trial.clients.producer.attempts import (
    COUNTERS_BYTES,
    DUE,
    RECORD_BYTES,
    REFUSED,
    SENT,
    AttemptsFile,
)
from ackbench.experiments.trial.events.journal import JOURNAL_FILE

SPEC = a_spec(trial_id="000-abcdef", fault=FaultRequest(kind="leader-crash"))
LOAD_BEGIN = {"kind": "load_begin", "at_ns": BEGIN_NS}


class Running:
    """A running trial with the reader that follows it."""

    def __init__(self, root: Path, spec: TrialSpec) -> None:
        self.spec, self.sweep = spec, a_running_sweep(root, (spec,))
        self.clients = self.sweep.partial(spec.trial_id) / "clients"
        self.follower = TrialFollower(self.sweep, spec)

    def begin(self) -> PlantedAttempts:
        """Begin the load of a producer of 100 records."""
        note(self.sweep, self.spec, LOAD_BEGIN)
        return PlantedAttempts(self.clients, 100)

    def figures(self) -> TrialFigures:
        """Return the figures now."""
        figures = self.follower.read().figures
        assert figures is not None
        return figures


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Callable[[TrialSpec], Running]]:
    """Return a function that begins a trial without any files of clients."""
    with ExitStack() as stack:

        def begin(spec: TrialSpec) -> Running:
            made = Running(tmp_path, spec)
            stack.callback(made.follower.close)
            return made

        yield begin


@pytest.fixture
def running(begun: Callable[[TrialSpec], Running]) -> Running:
    """Return a running trial without any files of clients."""
    return begun(SPEC)


def slots(counts: object) -> list[int]:
    """Return the records per slot."""
    return counts.slots.tolist()  # type: ignore[attr-defined, no-any-return]


def test_before_the_load_there_are_no_figures(running: Running) -> None:
    """Warm-up records are settled then, too."""
    attempts = PlantedAttempts(running.clients, 10)
    attempts.send(0, [1], SENT)
    assert running.follower.read().figures is None


def test_each_record_counts_in_the_slot_of_its_own_time(running: Running) -> None:
    """Sent at 0, 99, 100 and 250 ms; acknowledged 40 ms later, except the third one."""
    attempts = running.begin()
    attempts.send(0, [0, 99, 100, 250], SENT)
    attempts.settle([0, 1, 3], latency_ms=40)
    receive(running.clients / "consumer-0.reads", [45, 150, 320])
    figures = running.figures()
    assert figures.sent is not None
    assert slots(figures.sent) == [2, 1, 1]
    assert slots(figures.acked) == [1, 1, 1]
    assert slots(figures.read) == [1, 1, 0, 1]
    assert (figures.unsettled, figures.failed, figures.refused) == (1, 0, 0)


def test_an_interrupted_trial_that_is_run_again_begins_again(running: Running) -> None:
    """Its new folder has the name of the old one, and may have its inode number."""
    attempts = running.begin()
    attempts.send(0, [0, 99, 100, 250], SENT)
    assert running.figures().unsettled == 4
    shutil.rmtree(running.clients.parent)
    running.clients.mkdir(parents=True)
    assert running.follower.read().figures is None
    running.begin().send(0, [10], SENT)
    assert running.figures().unsettled == 1


def test_an_attempt_of_an_earlier_run_has_no_figures(running: Running) -> None:
    """Its folder stays until the cluster of the next attempt is healthy."""
    running.begin().send(0, [10], SENT)
    follower = TrialFollower(running.sweep, SPEC, BEGIN_NS + 1)
    live = follower.read()
    follower.close()
    assert (live.figures, live.load_s) == (None, None)


def test_a_second_reading_adds_what_is_new_and_nothing_twice(running: Running) -> None:
    """Also a record that was sent before the first reading and settled after it."""
    attempts = running.begin()
    attempts.send(0, [10, 20], SENT)
    attempts.settle([1], latency_ms=5)
    receive(running.clients / "consumer-0.reads", [30])
    running.figures()
    attempts.send(2, [110], SENT)
    attempts.settle([0, 2], latency_ms=300)
    receive(running.clients / "consumer-0.reads", [31, 32], before=1)
    for _ in range(2):
        figures = running.figures()
        assert figures.sent is not None
        assert slots(figures.sent) == [2, 1]
        assert slots(figures.acked) == [1, 0, 0, 1, 1]
        assert slots(figures.read) == [3]
        assert figures.unsettled == 0


def test_failed_and_refused_records_are_no_acknowledged_ones(running: Running) -> None:
    """A delivery report with an error, and a record that the client did not accept."""
    attempts = running.begin()
    attempts.send(0, [10, 20], SENT)
    attempts.send(2, [30], REFUSED)
    attempts.settle([0], latency_ms=5, error=-192)
    figures = running.figures()
    assert (figures.acked.records, figures.failed, figures.refused) == (0, 1, 1)
    assert figures.sent is not None
    assert (figures.sent.records, figures.unsettled) == (2, 1)


def test_after_a_fatal_error_the_rest_of_the_schedule_is_refused(running: Running) -> None:
    """The producer marks those records without counting on."""
    attempts = running.begin()
    attempts.send(0, [10], SENT)
    attempts.file.rows["state"][1:] = REFUSED
    attempts.file.header["fatal_error"] = -150
    assert running.figures().refused == 99


def test_a_record_in_the_hands_of_a_killed_producer_is_not_sent(running: Running) -> None:
    """Until a later process of the producer sends it."""
    attempts = running.begin()
    attempts.send(0, [10], DUE)
    assert running.figures().sent.records == 0  # type: ignore[union-attr]
    attempts.send(0, [510], SENT)
    sent = running.figures().sent
    assert sent is not None
    assert slots(sent) == [0, 0, 0, 0, 0, 1]


def test_the_latency_counts_from_the_intended_time(running: Running) -> None:
    """As in the report: 1 ms until it was sent, 40 ms until the acknowledgement."""
    attempts = running.begin()
    attempts.send(0, [10, 20], SENT)
    attempts.settle([0, 1], latency_ms=40)
    latency = running.figures().latency
    assert latency is not None
    assert latency.recent is not None
    assert latency.recent.p99_ms == pytest.approx(41.0)
    assert latency.sum_s == pytest.approx(0.082)
    assert latency.buckets[5] == 2  # above 20 ms, up to 50 ms


def test_members_of_groups_count_apart_and_as_they_appear(
    begun: Callable[[TrialSpec], Running],
) -> None:
    """A restarted member has another file."""
    load = SPEC.workload.model_copy(update={"group": GroupMembers()})
    running = begun(SPEC.model_copy(update={"workload": load}))
    running.begin()
    receive(running.clients / "member-1.0.reads", [10, 20])
    assert running.figures().processed.records == 2  # type: ignore[union-attr]
    receive(running.clients / "member-1.1.reads", [30])
    figures = running.figures()
    assert figures.processed is not None
    assert (figures.processed.records, figures.read.records) == (3, 0)


def test_members_that_are_programs_count_by_what_they_report(
    begun: Callable[[TrialSpec], Running],
) -> None:
    """Each process has its own output."""
    load = SPEC.workload.model_copy(update={"group": GroupMembers()})
    running = begun(SPEC.model_copy(update={"client": "java", "workload": load}))
    note(running.sweep, running.spec, LOAD_BEGIN)
    at_ms = BEGIN_NS // MS + 10
    for generation, seqs in enumerate(([100_000, 100_001], [100_002])):
        lines = [
            {
                "timestamp": at_ms,
                "name": "record_data",
                "partition": 0,
                "offset": 0,
                "value": f"1.{seq}",
            }
            for seq in seqs
        ]
        output = running.clients / f"member-1.{generation}.out"
        output.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    figures = running.figures()
    assert figures.processed is not None
    assert (figures.processed.records, figures.read.records) == (3, 0)


def test_a_trial_without_groups_has_no_processed_records(running: Running) -> None:
    """It is not 0: nothing was there to process them."""
    running.begin()
    assert running.figures().processed is None


@pytest.mark.parametrize("kept_bytes", [0, 7, 100, COUNTERS_BYTES, COUNTERS_BYTES + 33])
def test_a_file_that_is_not_complete_yet_has_no_records(running: Running, kept_bytes: int) -> None:
    """It is read once it is: on some file systems it grows while its space is reserved."""
    attempts = running.begin()
    attempts.send(0, [10], SENT)
    content = attempts.path.read_bytes()
    attempts.path.unlink()
    attempts.path.write_bytes(content[:kept_bytes])
    assert running.figures().acked.records == 0
    attempts.path.unlink()
    attempts.path.write_bytes(content)
    assert running.figures().sent.records == 1  # type: ignore[union-attr]


def test_a_file_that_is_cut_later_is_not_read_any_more(running: Running) -> None:
    """Reading the mapping behind its end would end the process."""
    attempts = running.begin()
    attempts.send(0, [10], SENT)
    running.figures()
    with attempts.path.open("r+b") as file:
        file.truncate(COUNTERS_BYTES)
    assert running.figures().sent.records == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("lost_bytes", [1, 55, 56, 90])
def test_a_torn_row_is_read_when_it_is_complete(running: Running, lost_bytes: int) -> None:
    """The header may count a row whose bytes are not there yet."""
    running.begin()
    path = running.clients / "consumer-0.reads"
    receive(path, [10, 20])
    complete = path.read_bytes()[: -10 * ReadRow.itemsize]
    path.write_bytes(complete[:-lost_bytes])
    before = running.figures().read.records
    path.write_bytes(complete)
    assert before < 2
    assert running.figures().read.records == 2


def test_the_files_can_be_read_on_after_the_client_deleted_them(running: Running) -> None:
    """A trial deletes them once its tables are written."""
    attempts = running.begin()
    attempts.send(0, [10], SENT)
    running.figures()
    attempts.settle([0], latency_ms=5)
    attempts.path.unlink()
    assert running.figures().acked.records == 1


def test_a_long_file_is_read_in_parts(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that one call takes a bounded time."""
    monkeypatch.setattr(mapped, "MOST_ROWS", 3)
    attempts = running.begin()
    attempts.send(0, [10, 20, 30, 40], SENT)
    assert [running.figures().sent.records for _ in range(3)] == [3, 4, 4]  # type: ignore[union-attr]


@settings(max_examples=50, deadline=None)
@given(
    latencies=st.lists(st.integers(0, 400), min_size=1, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=4),
)
def test_the_figures_do_not_depend_on_when_they_are_read(
    latencies: list[int], cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Read at any moments, or once at the end: the same."""
    attempts = PlantedAttempts(tmp_path_factory.mktemp("clients"), len(latencies))
    often, once = ([SlotCounter(), SlotCounter()] for _ in range(2))
    follower = AttemptsFollower(attempts.path, BEGIN_NS, often[0], often[1], LatencyCounter())
    for seq, latency_ms in enumerate(latencies):
        if seq in cuts:
            follower.read()
        attempts.send(seq, [seq * 7], SENT)
        if latency_ms % 3:
            attempts.settle([seq], latency_ms)
    follower.read()
    for seq, latency_ms in enumerate(latencies):
        if not latency_ms % 3:
            attempts.settle([seq], latency_ms)
    follower.read()
    AttemptsFollower(attempts.path, BEGIN_NS, once[0], once[1], LatencyCounter()).read()
    for counter, expected in zip(often, once, strict=True):
        assert slots(counter.counts()) == slots(expected.counts())
    acked_ms = np.arange(len(latencies)) * 7 + np.array(latencies)
    assert slots(often[1].counts()) == np.bincount(acked_ms // 100).tolist()
    follower.close()


def test_a_file_of_ten_million_records_is_not_read_again(tmp_path: Path) -> None:
    """What a call reads are the new rows, and those that are not settled."""
    path = tmp_path / "producer-0.attempts"
    records = 10_000_000
    with path.open("wb") as file:  # sparse: only the rows below take space
        file.truncate(COUNTERS_BYTES + records * RECORD_BYTES)
    file_of_trial = AttemptsFile.attach(path)
    file_of_trial.header["records"], file_of_trial.header["next_seq"] = records, records
    counters = (SlotCounter(), SlotCounter(), LatencyCounter())
    follower = AttemptsFollower(path, BEGIN_NS, *counters)
    follower._next_seq = records - 2
    file_of_trial.rows["state"][-2:] = SENT
    file_of_trial.rows["sent_ns"][-2:] = BEGIN_NS
    follower.read()
    assert (counters[0].counts().records, follower.unsettled) == (2, 2)
    follower.close()


def test_a_stepped_clock_takes_no_memory(running: Running) -> None:
    """A year of slots would be gigabytes: such a record counts, and has no slot."""
    attempts = running.begin()
    attempts.send(0, [10, 365 * 86_400_000], SENT)
    sent = running.figures().sent
    assert sent is not None
    assert (sent.records, slots(sent)) == (2, [1])


# The journal


def test_the_fault_s_marks_are_those_of_the_journal(running: Running) -> None:
    """Begin, first effect and heal."""
    running.begin()
    note(running.sweep, SPEC, {"kind": "fault_begin", "at_ns": BEGIN_NS + 500 * MS})
    assert running.follower.read().fault.value == "begun"
    note(running.sweep, SPEC, {"kind": "fault_effective", "at_ns": BEGIN_NS + 510 * MS})
    assert running.follower.read().fault.value == "effective"
    note(running.sweep, SPEC, {"kind": "fault_end", "at_ns": BEGIN_NS + 900 * MS})
    live = running.follower.read()
    (span,) = live.events.faults
    assert live.fault.value == "healed"
    assert [
        (at - BEGIN_NS) // MS for at in (span.begin_ns, span.effective_ns, span.end_ns) if at
    ] == [500, 510, 900]


def test_marks_of_parallel_faults_are_kept_apart(running: Running) -> None:
    """Each detail begins with the fault's name."""
    running.begin()
    for kind, name, at_ms in (
        ("fault_begin", "1.leader-crash", 1),
        ("fault_begin", "2.follower-pause", 2),
        ("fault_effective", "2.follower-pause", 3),
        ("fault_end", "1.leader-crash", 4),
    ):
        event = {"kind": kind, "at_ns": BEGIN_NS + at_ms, "detail": f"{name}: node 1"}
        note(running.sweep, SPEC, event)
    first, second = running.follower.read().events.faults
    assert (first.effective_ns, first.end_ns) == (None, BEGIN_NS + 4)
    assert (second.effective_ns, second.end_ns) == (BEGIN_NS + 3, None)


def test_leaders_and_isrs_are_those_of_the_metadata_poller(running: Running) -> None:
    """A partition without a leader has none, not the one before."""
    running.begin()
    note(
        running.sweep,
        SPEC,
        {"kind": "leader", "at_ns": 1, "node": 1, "partition": 0},
        {"kind": "isr", "at_ns": 1, "partition": 0, "detail": "1,2,3"},
        {"kind": "leader", "at_ns": 5, "node": None, "partition": 0},
        {"kind": "isr", "at_ns": 6, "partition": 0, "detail": "2,3"},
        {"kind": "controller", "at_ns": 2, "node": 3},
    )
    events = running.follower.read().events
    (history,) = events.partitions
    assert [span.node for span in history.leaders] == [1, None]
    assert [span.nodes for span in history.isrs] == [(1, 2, 3), (2, 3)]
    assert events.controller == 3


def test_a_torn_line_of_the_journal_is_read_when_it_is_complete(running: Running) -> None:
    """And a line that is no event is left out."""
    path = running.sweep.partial(SPEC.trial_id) / JOURNAL_FILE
    line = json.dumps({**LOAD_BEGIN, "node": None, "partition": None, "detail": ""})
    path.write_text(f"[1]\nnot JSON\n{line[:20]}")
    assert running.follower.read().events.load_begin_ns is None
    with path.open("a") as file:
        file.write(f"{line[20:]}\n")
    assert running.follower.read().events.load_begin_ns == BEGIN_NS


# Java


JAVA = a_spec(trial_id="000-abcdef", client="java")


def report(name: str, number: int, at_ms: int) -> str:
    """Return a line of a Java program about a record."""
    line = {"timestamp": BEGIN_NS // MS + at_ms, "name": name, "value": f"77.{number}"}
    return f"{json.dumps(line)}\n"


def test_a_java_producer_has_what_it_reports_and_nothing_else(
    begun: Callable[[TrialSpec], Running],
) -> None:
    """It reports no record as sent, and no latency: both are unknown, not 0."""
    running = begun(JAVA)
    note(running.sweep, JAVA, LOAD_BEGIN)
    first = round(JAVA.workload.rate_records_per_s / JAVA.workload.producers * 2)
    (running.clients / "producer-0.out").write_text(
        "a line that is no JSON\n"
        + report("producer_send_success", first - 1, -5)  # the last one of the warm-up
        + report("producer_send_success", first, 10)
        + report("producer_send_error", first + 1, 20)
        + report("producer_send_success", first + 2, 110)[:-9]
    )
    (running.clients / "consumer-0.out").write_text(report("record_data", first, 15))
    figures = running.figures()
    assert slots(figures.acked) == [1]
    assert (figures.failed, figures.read.records) == (1, 1)
    assert (figures.sent, figures.refused, figures.unsettled, figures.latency) == (None,) * 4


def test_a_live_trial_knows_how_long_its_load_runs(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the journal's begin of the load."""
    monkeypatch.setattr("time.time_ns", lambda: BEGIN_NS + 2_000 * MS)
    running.begin()
    live: LiveTrial = running.follower.read()
    assert live.load_s == pytest.approx(2.0)


def test_another_trial_s_folder_is_not_needed(tmp_path: Path) -> None:
    """A trial without a folder has not begun."""
    live = TrialFollower(SweepFolder(tmp_path / "absent"), SPEC).read()
    assert (live.figures, live.events.partitions) == (None, ())
