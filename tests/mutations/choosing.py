"""Which mistakes are tried, and which of them are known to be none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from mutations.mutator import Mutant, mutants_of
from support import tally

JOB: Final = Path(__file__).parents[2] / "spark_jobs"
BY_HISTORIES: Final = (
    *(
        f"measures.{name}"
        for name in (
            "blocks",
            "fates",
            "order",
            "reads",
            "latency",
            "throughput",
            "availability",
            "trials",
            "transactions",
        )
    ),
    *("causes.screening", "io.frames", "pipeline"),
)
"""Modules whose mistakes generated histories must tell."""
BY_BOTH: Final = ("causes.anomalous_records", "causes.explanations")
"""Modules of whose results the plain loops know a part; what they do not know, the modules' own planted cases must tell."""
BY_CASES: Final = ("causes.evidence", "causes.rules", "causes.outages")
"""Modules of which no history tells, and which need no Spark: their own planted cases must."""
OF_FILES: Final = frozenset({"io.frames._scan", "io.frames.read_frames"})
"""What finds the ledgers' files is not run here; `test_job.py` sees whether it does."""
ASKED: Final = os.environ.get("ACKBENCH_MUTANTS", "")
"""How many are tried, drawn by a seed, or `all`; or those whose names begin with one of some words, between commas."""
SEED: Final = 20
EQUIVALENT: Final = Path(__file__).with_name("equivalent.txt")


def mutants_in(modules: Sequence[str]) -> list[Mutant]:
    """Return every mistake in some modules."""
    every = (
        mutant
        for name in modules
        for mutant in mutants_of(f"spark_jobs.{name}", JOB / f"{name.replace('.', '/')}.py")
    )
    return [mutant for mutant in every if mutant.name.partition(":")[0] not in OF_FILES]


def drawn(mutants: Sequence[Mutant], unless_asked: str) -> Sequence[Mutant]:
    """Return those that are tried."""
    asked = ASKED or unless_asked
    if not asked.isdigit():
        return [
            mutant
            for mutant in mutants
            if asked == "all" or mutant.name.startswith(tuple(asked.split(",")))
        ]
    return sorted(mutants, key=lambda mutant: sha256(f"{SEED} {mutant.name}".encode()).digest())[
        : int(asked)
    ]  # new code leaves the others drawn


def equivalents() -> Mapping[str, str]:
    """Return name and reason of the mutants that change nothing."""
    lines = [
        line.rsplit(" | ", 1)
        for line in EQUIVALENT.read_text().splitlines()
        if line and not line.startswith("#")
    ]
    return {line[0]: line[1] for line in lines}


def tried(mutants: Sequence[Mutant], is_noticed: Callable[[Mutant], bool]) -> None:
    """See that every mistake is noticed, but for those that are listed as none, and of those none."""
    noticed = {mutant.name: is_noticed(mutant) for mutant in mutants}
    tally.count("mistakes planted in the code that judges", len(noticed))
    tally.count("of them noticed", sum(noticed.values()))
    wrong = list(_wrong(noticed, equivalents()))
    assert not wrong, "\n".join(wrong)


def _wrong(noticed: Mapping[str, bool], same: Mapping[str, str]) -> Iterator[str]:
    yield from (
        f"nobody noticed: {name}" for name, was in noticed.items() if not was and name not in same
    )
    yield from (
        f"listed as no mistake, and noticed: {name}"
        for name, was in noticed.items()
        if was and name in same
    )
