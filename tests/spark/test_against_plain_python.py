"""Random ledgers, measured by Spark and by a loop over every record: the same comes out."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from standins.plain_results import PlainTrial, plain

from experiments.ledger.measured import QUANTILES
from experiments.ledger.record import Phases
from spark_jobs.ledgers import open_ledgers
from spark_jobs.planted import Attempt, Logged, PlantedTrial, Read
from spark_jobs.sweep import results

MS = 1_000_000
END_MS = 40
PRODUCERS = 2
RECORDS = 70
"""Of each producer: more than a block of 64."""

times_ns = st.integers(0, END_MS).map(lambda ms: ms * MS)
fault = st.one_of(st.none(), st.tuples(times_ns, st.one_of(st.none(), times_ns)))
outcomes = st.sampled_from(["acked", "acked", "rejected", "unknown"])


@st.composite
def trials(draw: st.DrawFn) -> PlantedTrial:
    """A trial whose every record has a random outcome, copies, reads and times; some rows of the log are nobody's."""
    random = draw(st.randoms(use_true_random=False))
    begin_ns, end_ns = draw(fault) or (None, None)
    phases = Phases(load_begin_ns=0, load_end_ns=END_MS * MS, fault_begin_ns=begin_ns, fault_end_ns=end_ns, settled_ns=END_MS * MS, whole_ns=END_MS * MS)
    wanted = [(producer, seq, draw(outcomes), random.randrange(END_MS * MS)) for producer in range(PRODUCERS) for seq in range(draw(st.integers(1, RECORDS)))]
    attempts = [Attempt(p, seq, outcome, at, random.randrange(END_MS) * MS, partition=random.randrange(3)) for p, seq, outcome, at in wanted]
    ids = [(p, seq, at) for p, seq, _, at in wanted]
    copies = [(p, seq) for p, seq, _ in random.choices(ids, k=len(ids)) + ids[::2]] + [(9, 9)] * random.randrange(3) + [(None, None)] * random.randrange(3)
    log = [Logged(p, seq, offset, intact=p is None or random.random() > 0.1) for offset, (p, seq) in enumerate(copies)]
    reads = [Read(p, seq, offset, at, random.randrange(END_MS * MS)) for offset, (p, seq, at) in enumerate(random.choices(ids, k=len(ids)))]
    return PlantedTrial("", attempts, log, [*reads, Read(None, None, 0, None)], phases)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.data_too_large, HealthCheck.too_slow])
@given(sweep=st.lists(trials(), min_size=16, max_size=16))
def test_spark_finds_what_a_loop_over_every_record_finds(spark: SparkSession, sweep: list[PlantedTrial]) -> None:
    """Fates, quantiles and gaps of many trials at once."""
    with TemporaryDirectory() as folder:
        for number, trial in enumerate(sweep):
            PlantedTrial(f"{number:03d}", trial.attempts, trial.log, trial.reads, trial.phases).plant(Path(folder))
        found = results(spark, open_ledgers(folder))
    assert [_of(found, f"{number:03d}") for number in range(len(sweep))] == [plain(trial) for trial in sweep]


def _of(found: dict[str, pa.Table], trial_id: str) -> PlainTrial:
    """One trial's results in the words of the plain loop."""
    rows = {name: [row for row in found[name].to_pylist() if row["trial_id"] == trial_id] for name in ("fates", "latency", "gaps")}
    latency = {(row["measure"], row["phase"]): [row[f"{name}_us"] for name in QUANTILES] for row in rows["latency"]}
    return PlainTrial(
        fates={row["fate"]: (row["records"], row["copies"]) for row in rows["fates"] if row["records"]},
        ack_us={phase: values for (measure, phase), values in latency.items() if measure == "ack"},
        end_to_end_us={phase: values for (measure, phase), values in latency.items() if measure == "end_to_end"},
        gaps={row["partition"]: (row["gap_ns"], row["began_ns"]) for row in rows["gaps"]},
    )
