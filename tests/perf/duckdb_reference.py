"""DuckDB's answers to the main questions of the measuring job, from the same files.

    python tests/perf/duckdb_reference.py <sweep folder> [--check]

It is the yardstick of `make perf`, and an independent check: with `--check` each answer must equal
the job's `results/`. Definitions are those of `docs/metrics.md`, for trials without transactions,
consumer groups, copiers and expired records.

As seq is dense, a set of records is a bitstring: 65,536 records of a producer are a block. So
lost and missed records are differences of bitstrings, and records with several copies are looked
for only in blocks with more rows than bits. Without that (joins and GROUP BY of all ids) the same
answers take 3 times as long.
"""

# ruff: noqa: S608 - the queries contain paths of the caller and names of this module only

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow.parquet as pq

THREADS: Final = 2
QUANTILES: Final = "[0.5, 0.9, 0.99, 0.999, 1.0]"
"""As DECIMAL: `quantile_disc` then gives the nearest rank without rounding errors."""
_BLOCK_BITS: Final = 16
_IN_BLOCK: Final = (1 << _BLOCK_BITS) - 1
_PLACE_BITS: Final = 48
"""A partition and a seq below 2^48 as one number."""


class Quantiles(NamedTuple):
    """Quantiles of a latency by nearest rank, and the number of records."""

    records: int
    p50_us: int
    p90_us: int
    p99_us: int
    p99_9_us: int
    max_us: int


class Gap(NamedTuple):
    """The longest time of a partition without an acknowledgement while records were due."""

    partition: int
    gap_ns: int


@dataclass(frozen=True)
class Answers:
    """What DuckDB computes of one trial; names as in `results/trials.parquet`."""

    attempted_records: int
    acked_records: int
    rejected_records: int
    unknown_records: int
    lost_low_records: int
    lost_high_records: int
    duplicates: int
    duplicated_records: int
    log_records: int
    phantom_copies: int
    corrupt_copies: int
    reordered_records: int
    missed_records: int
    redelivered_reads: int
    ack: Quantiles | None
    """`None`: nothing was acknowledged."""
    end_to_end: Quantiles | None
    """`None`: nothing was read."""
    gaps: tuple[Gap, ...]


def sealed_trials(sweep: Path) -> list[Path]:
    """Return the folders of a sweep's sealed trials, by trial id."""
    return sorted(
        path.parent for path in sweep.glob("trials/*/trial.json") if path.parent.suffix == ""
    )


def answer(sweep: Path) -> dict[str, Answers]:
    """Return the answers by trial id, with one connection."""
    connection = duckdb.connect()
    connection.execute(f"SET threads = {THREADS}")
    return {trial.name: answer_trial(connection, trial) for trial in sealed_trials(sweep)}


def answer_trial(connection: duckdb.DuckDBPyConnection, trial: Path) -> Answers:
    """Return the answers for one trial.

    Raises:
        ValueError: the ledger has what this reference does not cover.
    """
    phases = json.loads((trial / "trial.json").read_bytes())["phases"]
    queries = _Queries(connection, trial)
    outcomes = queries.outcomes()
    log = queries.log_rows()
    absent = queries.absent_by_outcome()
    return Answers(
        attempted_records=sum(outcomes.values()),
        acked_records=outcomes.get("acked", 0),
        rejected_records=outcomes.get("rejected", 0),
        unknown_records=outcomes.get("unknown", 0),
        lost_low_records=absent.get("acked", 0),
        lost_high_records=absent.get("acked", 0) + absent.get("unknown", 0),
        duplicates=log.copies - log.ids,
        duplicated_records=queries.duplicated_records() if log.copies > log.ids else 0,
        log_records=log.rows,
        phantom_copies=log.foreign,
        corrupt_copies=log.corrupt,
        reordered_records=queries.reordered_records(),
        missed_records=queries.missed_records(),
        redelivered_reads=queries.redelivered_reads(),
        ack=queries.acknowledgement_latency(),
        end_to_end=queries.end_to_end_latency(),
        gaps=queries.gaps(phases["settled_ns"]),
    )


class _LogRows(NamedTuple):
    """The rows of the log: all, those without an id, the corrupt, those of an id, and the ids."""

    rows: int
    foreign: int
    corrupt: int
    copies: int
    ids: int


class _Queries:
    """The queries on one trial's files."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, trial: Path) -> None:
        """Compute the sets of records as bitstrings.

        Raises:
            ValueError: the ledger has what this reference does not cover.
        """
        self._connection = connection
        self._attempts, self._log, self._reads = (
            f"read_parquet('{str(trial / table).replace(chr(39), chr(39) * 2)}.parquet')"
            for table in ("attempts", "log", "reads")
        )
        self._copies = f"(SELECT * FROM {self._log} WHERE intact AND producer IS NOT NULL)"
        self._received = (
            f"(SELECT * FROM {self._reads} WHERE consumer = 0 AND producer IS NOT NULL)"
        )
        self._blocks("attempted", self._attempts, "producer, outcome", "seq")
        self._blocks("stored", self._copies, "producer", "seq")
        self._blocks("received", self._received, "producer", "seq")
        if self._count(self._log, "NOT visible") or self._count(self._reads, "consumer <> 0"):
            raise ValueError(f"{trial.name} has hidden records or a consumer group: not covered")

    def _blocks(self, name: str, rows: str, keys: str, place: str) -> None:
        """Create a table with the rows and the distinct places of each block, as a bitstring."""
        self._connection.execute(f"""
            CREATE OR REPLACE TEMP TABLE {name} AS
            SELECT {keys}, {place} >> {_BLOCK_BITS} AS block, count(*) AS rows,
              bitstring_agg({place} & {_IN_BLOCK}, 0, {_IN_BLOCK}) AS places
            FROM {rows} GROUP BY ALL
        """)

    def _count(self, rows: str, condition: str = "true") -> int:
        return int(self._row(f"SELECT count(*) FROM {rows} WHERE {condition}")[0])

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query).fetchall()

    def _row(self, query: str) -> tuple[Any, ...]:
        return self._rows(query)[0]

    def outcomes(self) -> dict[str, int]:
        """Return the number of attempts by outcome."""
        return {
            str(outcome): count
            for outcome, count in self._rows(
                "SELECT outcome, sum(rows)::BIGINT FROM attempted GROUP BY ALL"
            )
        }

    def log_rows(self) -> _LogRows:
        """Return the numbers of rows of the log."""
        return _LogRows(
            *self._row(f"""
                SELECT count(*), count(*) FILTER (intact AND producer IS NULL),
                  count(*) FILTER (NOT intact) FROM {self._log}
            """),
            *self._row("SELECT sum(rows)::BIGINT, sum(bit_count(places))::BIGINT FROM stored"),
        )

    def absent_by_outcome(self) -> dict[str, int]:
        """Return the number of attempts that are not in the log, by outcome."""
        return {
            str(outcome): count
            for outcome, count in self._rows("""
            SELECT outcome, sum(bit_count(
              CASE WHEN stored.places IS NULL THEN attempted.places
              ELSE attempted.places & ~stored.places END))::BIGINT
            FROM attempted LEFT JOIN stored USING (producer, block) GROUP BY ALL
        """)
        }

    def duplicated_records(self) -> int:
        """Return the number of records with several copies."""
        return int(
            self._row(f"""
            SELECT count(*) FROM (
              SELECT producer, seq FROM {self._copies}
              WHERE (producer, seq >> {_BLOCK_BITS}) IN {_repeated_blocks("producer", "stored")}
              GROUP BY ALL HAVING count(*) > 1)
        """)[0]
        )

    def reordered_records(self) -> int:
        """Return the number of records behind a record with a higher seq.

        The log is ordered by partition and offset, so the running maximum needs no sort. Late
        rows that are not the first copy of their record do not count.
        """
        self._connection.execute(f"""
            CREATE OR REPLACE TEMP TABLE late AS SELECT * FROM {self._copies} LIMIT 0
        """)
        for (producer,) in self._rows("SELECT DISTINCT producer FROM stored"):
            self._connection.execute(f"""
                INSERT INTO late BY NAME
                SELECT partition, "offset", producer, seq FROM (
                  SELECT *, max(partition::BIGINT << {_PLACE_BITS} | seq)
                    OVER (ROWS UNBOUNDED PRECEDING) AS highest
                  FROM (SELECT partition, "offset", producer, seq FROM {self._copies}
                    WHERE producer = {producer}))
                WHERE partition::BIGINT << {_PLACE_BITS} | seq < highest
            """)
        return self._count(
            """
            (SELECT DISTINCT producer, seq FROM late WHERE NOT EXISTS (
              SELECT 1 FROM copies AS earlier
              WHERE earlier.partition = late.partition AND earlier.producer = late.producer
                AND earlier.seq = late.seq AND earlier."offset" < late."offset"))
        """.replace("copies", self._copies)
        )

    def missed_records(self) -> int:
        """Return the number of ids in the log that the consumer did not receive."""
        return int(
            self._row("""
            SELECT sum(bit_count(
              CASE WHEN received.places IS NULL THEN stored.places
              ELSE stored.places & ~received.places END))::BIGINT
            FROM stored LEFT JOIN received USING (producer, block)
        """)[0]
        )

    def redelivered_reads(self) -> int:
        """Return the number of reads of a record at an offset where it was received before."""
        self._blocks("read_offsets", self._reads, "partition", '"offset"')
        repeated = _repeated_blocks("partition", "read_offsets")
        if not self._count(repeated):
            return 0
        return int(
            self._row(f"""
            SELECT coalesce(sum(reads - 1), 0)::BIGINT FROM (
              SELECT count(*) AS reads FROM {self._reads}
              WHERE (partition, "offset" >> {_BLOCK_BITS}) IN {repeated}
              GROUP BY partition, "offset", producer, seq)
        """)[0]
        )

    def acknowledgement_latency(self) -> Quantiles | None:
        """Return the quantiles from the intended time to the acknowledgement."""
        return self._quantiles(f"""
            SELECT settled_ns - intended_ns AS ns FROM {self._attempts} WHERE outcome = 'acked'
        """)

    def end_to_end_latency(self) -> Quantiles | None:
        """Return the quantiles from the intended time to the first read of each id."""
        repeated = _repeated_blocks("producer", "received")
        if not self._count(repeated):
            return self._quantiles(f"SELECT received_ns - intended_ns AS ns FROM {self._received}")
        is_repeated = f"(producer, seq >> {_BLOCK_BITS}) IN {repeated}"
        return self._quantiles(f"""
            SELECT received_ns - intended_ns AS ns FROM {self._received} WHERE NOT ({is_repeated})
            UNION ALL
            SELECT min(received_ns - intended_ns) FROM {self._received} WHERE {is_repeated}
            GROUP BY producer, seq
        """)

    def _quantiles(self, latencies: str) -> Quantiles | None:
        """Return exact quantiles in whole microseconds, rounded down; none is negative."""
        records, quantiles = self._row(
            f"SELECT count(*), quantile_disc(ns // 1000, {QUANTILES}) FROM ({latencies})"
        )
        return Quantiles(records, *quantiles) if records else None

    def gaps(self, settled_ns: int) -> tuple[Gap, ...]:
        """Return each partition's longest gap, exact if it is a millisecond or more.

        What settles within one millisecond is merged, so nothing is sorted. The slots up to an
        acknowledgement, and after the one before it, are a wait.
        """
        rows = self._rows(f"""
            WITH due AS (
              SELECT partition, coalesce(settled_ns, {settled_ns}) AS at_ns,
                outcome = 'acked' AS ok, coalesce(sent_ns, intended_ns) AS due_ns
              FROM {self._attempts} WHERE partition IS NOT NULL
            ), slots AS (
              SELECT partition, at_ns // 1000000 AS ms, min(due_ns) AS due_ns, max(at_ns) AS at_ns,
                min(at_ns) FILTER (ok) AS first_ns, max(at_ns) FILTER (ok) AS last_ns
              FROM due GROUP BY ALL
            ), numbered AS (
              SELECT *, count(first_ns) OVER (PARTITION BY partition ORDER BY ms ROWS BETWEEN
                UNBOUNDED PRECEDING AND 1 PRECEDING) AS wait FROM slots
            ), waits AS (
              SELECT partition, wait, min(due_ns) AS due_ns, max(last_ns) AS last_ns,
                coalesce(min(first_ns), max(at_ns)) AS end_ns
              FROM numbered GROUP BY ALL
            ), spans AS (
              SELECT partition, end_ns, lag(last_ns) OVER (PARTITION BY partition ORDER BY wait)
                AS before_ns, min(due_ns) OVER (PARTITION BY partition ORDER BY wait
                ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS since_ns
              FROM waits
            )
            SELECT partition, max(greatest(0, end_ns - greatest(before_ns, since_ns)))
            FROM spans GROUP BY ALL ORDER BY ALL
        """)
        return tuple(Gap(*row) for row in rows)


def _repeated_blocks(key: str, blocks: str) -> str:
    """Return the query of the blocks with more rows than places."""
    return f"(SELECT ({key}, block) FROM {blocks} WHERE rows > bit_count(places))"


def differences(sweep: Path, answers: Mapping[str, Answers]) -> list[str]:
    """Return a line for each answer that differs from the job's results."""
    trials, latencies, gaps = (
        pq.read_table(sweep / "results" / f"{name}.parquet").to_pylist()
        for name in ("trials", "latency", "gaps")
    )
    found: dict[tuple[str, str], object] = {
        (row["trial_id"], name): value for row in trials for name, value in row.items()
    }
    for row in latencies:
        if row["phase"] == "all":
            values = [row[name] for name in Quantiles._fields]
            found[row["trial_id"], row["measure"]] = Quantiles(*values)
    for row in gaps:
        if row["side"] == "producer" and row["longest"]:
            found[row["trial_id"], f"gap {row['partition']}"] = row["gap_ns"]
    return [
        f"{trial_id}: {name} is {found.get((trial_id, name))} in the results, DuckDB says {value}"
        for trial_id, answers_of_trial in answers.items()
        for name, value in _named(answers_of_trial)
        if found.get((trial_id, name)) != value
    ]


def _named(answers: Answers) -> Iterator[tuple[str, object]]:
    for field in fields(answers):
        if field.name != "gaps":
            yield field.name, getattr(answers, field.name)
    for gap in answers.gaps:
        yield f"gap {gap.partition}", gap.gap_ns


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the answers as JSON; with --check, 1 if one differs from the job's results."""
    parser = argparse.ArgumentParser(prog="duckdb_reference", description=__doc__)
    parser.add_argument("sweep", type=Path, help="the sweep's folder")
    parser.add_argument("--check", action="store_true", help="compare with results/")
    options = parser.parse_args(arguments)
    answers = answer(options.sweep)
    if not options.check:
        print(json.dumps({name: asdict(found) for name, found in answers.items()}))  # noqa: T201
        return 0
    lines = differences(options.sweep, answers)
    print("\n".join(lines) or f"{len(answers)} trials: all answers are equal")  # noqa: T201
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
