"""Mistakes planted in the code that judges: generated histories must tell each from the right one."""

import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from mutations.mutator import Mutant, mutants_of
from mutations.running import JOB, Planted, Remembered, how_caught, small_plans
from pyspark.sql import SparkSession
from standins import tally
from standins.corners import CORNERS
from standins.generated import histories
from standins.histories import played

MODULES = (
    *("blocks", "fates", "copies", "order", "reading", "looking", "latency", "slots", "timeline"),
    *("availability", "throughput", "frames", "trials", "sums", "sweep", "finding"),
)
OF_FILES = frozenset({"spark_jobs.frames._scan", "spark_jobs.frames.stored"})
"""What finds the ledgers' files is not run here; `test_job.py` sees whether it does."""
ASKED = os.environ.get("ACKBENCH_MUTANTS", "24")
"""How many are tried, drawn by a seed, or `all`; or those whose names begin with a word."""
SEED = 20
HISTORIES = 128
EQUIVALENT = Path(__file__).parents[1] / "mutations" / "equivalent.txt"
SECONDS = 3600


def all_mutants() -> list[Mutant]:
    """Every mistake in every module that judges."""
    every = (mutant for name in MODULES for mutant in mutants_of(f"spark_jobs.{name}", JOB / f"{name}.py"))
    return [mutant for mutant in every if f"{mutant.module}.{mutant.where}" not in OF_FILES]


def drawn(mutants: Sequence[Mutant]) -> Sequence[Mutant]:
    """Those that are tried."""
    if not ASKED.isdigit():
        return [mutant for mutant in mutants if ASKED == "all" or mutant.name.startswith(ASKED)]
    return sorted(mutants, key=lambda mutant: sha256(f"{SEED} {mutant.name}".encode()).digest())[: int(ASKED)]  # new code leaves the others drawn


def equivalents() -> Mapping[str, str]:
    """Name and reason of the mutants that change nothing."""
    lines = [line.split(" | ", 1) for line in EQUIVALENT.read_text().splitlines() if line and not line.startswith("#")]
    return {line[0]: line[1] for line in lines}


@pytest.mark.timeout(SECONDS)
def test_every_mistake_is_noticed(spark: SparkSession) -> None:
    """But for those that are listed as no mistakes, and of those none."""
    trials = [played(history, f"{number:05d}") for number, history in enumerate([*CORNERS, *histories(HISTORIES, SEED)])]
    planted, memory = Planted.of(spark, trials), Remembered()
    mutants, same = drawn(all_mutants()), equivalents()
    survived, caught = list[str](), list[str]()
    with small_plans(spark):
        for mutant in mutants:
            with memory.in_use():
                (caught if how_caught(mutant, planted) else survived).append(mutant.name)
    tally.count("mistakes planted in the code that judges", len(mutants))
    tally.count("of them noticed", len(caught))
    unnoticed, no_mistakes = [name for name in survived if name not in same], [name for name in caught if name in same]
    assert not unnoticed, "\n".join(["nobody noticed:", *unnoticed])
    assert not no_mistakes, "\n".join(["listed as no mistakes, and noticed:", *no_mistakes])


def test_what_is_listed_as_no_mistake_can_be_made() -> None:
    """The list holds no name of code that is gone, and each has its reason."""
    names = {mutant.name for mutant in all_mutants()}
    assert [name for name, reason in equivalents().items() if name not in names or not reason.strip()] == []
