"""The page's lines on verdicts, where they say more than the verdict itself."""

from __future__ import annotations

from dataclasses import replace

from support.builders.sweeps import SAFE, measured_sweep

from ackbench.experiments.ledger.trial_manifest import Status
from ackbench.experiments.pages.report.verdict_lines import verdict_lines
from ackbench.experiments.results.wording import result_notes
from ackbench.experiments.verdicts.contract import ContractClause
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.judge import HarnessCheck, TrialFacts, judge


def test_what_the_contract_does_not_know_is_not_blamed_on_a_trial_that_cannot_tell() -> None:
    """The page and the terminal give the same cause: no trial could have decided it."""
    clause = ContractClause(
        guarantee=NO_ACKED_LOSS, guaranteed=None, reason="the level is unknown", source="a page"
    )
    trial = TrialFacts(trial_id="000-a", status=Status.SEALED, attempted=9, lost=(0, 1))
    data = measured_sweep((SAFE,))
    cell = data.results.cells[0].model_copy(
        update={"judgements": judge([clause], [trial], HarnessCheck())}
    )
    results = data.results.model_copy(update={"cells": (cell,)})

    (line,) = verdict_lines(replace(data, results=results))
    assert line.text.endswith("; it is not known whether Kafka guarantees it.")
    (note,) = (one.text for one in result_notes(results) if one.text.startswith("unknown: "))
    assert f"{cell.label}: the level is unknown; " in note
