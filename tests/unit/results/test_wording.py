"""The words of results that the terminal, the page and the gate share."""

from support.builders.findings import a_trial
from support.golden_files import Says

from ackbench.experiments.orchestration.tracking.runs import count_verdicts, verdict_metrics
from ackbench.experiments.results.comparing.gate import Gate
from ackbench.experiments.results.comparing.sentences import failure_sentence
from ackbench.experiments.results.models import CellResult, SweepResults
from ackbench.experiments.results.wording import LEGEND, result_notes, verdict_sign, verdict_text
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.verdicts.contract import ContractClause
from ackbench.experiments.verdicts.evidence import Observed, UnknownCause
from ackbench.experiments.verdicts.guarantees.duplicates import NO_DUPLICATES
from ackbench.experiments.verdicts.guarantees.order import ORDER
from ackbench.experiments.verdicts.judge import Judgement, Verdict
from ackbench.experiments.verdicts.statistics import share

CONTRACT_REASON = "Kafka's version is unknown"
OBSERVATION = "records were stored more than once in 0 of 5 trials (below 53 %)"


def _sweep_with_unknown_verdict(guaranteed: bool | None) -> SweepResults:
    clause = ContractClause(
        guarantee=NO_DUPLICATES,
        guaranteed=guaranteed,
        reason=CONTRACT_REASON,
        source="https://kafka.apache.org/documentation/#semantics",
    )
    judgement = Judgement(
        guarantee=NO_DUPLICATES,
        verdict=Verdict.UNKNOWN,
        unknown_cause=UnknownCause.CONTRACT if guaranteed is None else UnknownCause.INCONCLUSIVE,
        violation_seen=False,
        share=share(0, 5),
        mechanism=CONTRACT_REASON,
        evidence=(Observed(),),
    )
    cell = CellResult(
        cell={}, label="acks=all", planned_trials=5, clauses=(clause,), judgements=(judgement,)
    )
    return SweepResults(
        sweep_id="sweep",
        experiment="planned",
        question="?",
        seed=0,
        trials=(),
        cells=(cell,),
        pending=(),
        unmeasured=(),
        plan=Plan(
            sweep_id="sweep",
            experiment="planned",
            question="?",
            seed=0,
            repeats=1,
            trials=(),
            refused=(),
        ),
    )


def test_a_verdict_is_explained_by_the_contract_if_the_contract_does_not_know() -> None:
    """A guarantee whose rule knows the outcome is explained by what was observed."""
    unknown_rule, known_rule = map(_sweep_with_unknown_verdict, (None, True))
    (note,) = result_notes(unknown_rule)
    assert f"acks=all: {CONTRACT_REASON}; {OBSERVATION}" in note.text
    (note,) = result_notes(known_rule)
    assert note.text.endswith(f"acks=all: {OBSERVATION}")


def test_faults_behind_relays_are_named_with_what_relays_do_to_figures() -> None:
    """Latency and throughput of such a trial are not comparable with those of others."""
    sweep = _sweep_with_unknown_verdict(None)
    relayed = sweep.model_copy(update={"relayed": ("relay-dropped", "relay-held")})
    assert not any("relays" in note.text for note in result_notes(sweep))
    (note,) = (note.text for note in result_notes(relayed) if "relays" in note.text)
    assert note.startswith("relays: with relay-dropped, relay-held, clients connect to the brokers")


def test_a_client_that_hung_is_said_of_the_first_trials_and_counted_of_the_others() -> None:
    """With what the client's own time-out is."""
    sweep = _sweep_with_unknown_verdict(True)
    assert not any("HUNG" in note.text for note in result_notes(sweep))
    hung = a_trial({"fault": "none"}, hung_clients=("copier 1.0: send_offsets() had not returned",))
    notes = [
        note.text
        for note in result_notes(sweep.model_copy(update={"trials": (hung,) * 5}))
        if "HUNG" in note.text
    ]
    assert len(notes) == 4
    assert notes[0] == (
        f"HUNG in trial {hung.trial_id}: copier 1.0: send_offsets() had not returned"
    )
    assert notes[-1].startswith("HUNG: so did clients in 2 other trials")


def test_guarantees_that_are_unknown_for_one_reason_share_a_line() -> None:
    """A cell without a sealed trial had a long line for each of them."""
    sweep = _sweep_with_unknown_verdict(None)
    cell = sweep.cells[0]
    (judgement,) = (one for one in cell.judgements if one.verdict is Verdict.UNKNOWN)
    without_trials = [
        judgement.model_copy(update={"guarantee": one, "share": None, "evidence": ()})
        for one in (NO_DUPLICATES, ORDER)
    ]
    changed = cell.model_copy(update={"judgements": tuple(without_trials)})
    notes = result_notes(sweep.model_copy(update={"cells": (changed,)}))
    (note,) = (one.text for one in notes if one.text.startswith("unknown: "))

    assert note.startswith(f"unknown: {NO_DUPLICATES}, {ORDER}: {cell.label}: ")


def test_the_gate_names_the_same_reason_as_the_notes() -> None:
    """`--fail-on unknown` says what is not known of the cell."""
    sweep = _sweep_with_unknown_verdict(None)
    failures = map(failure_sentence, Gate(unknown=True).sweep_failures(sweep))
    (failure,) = (one for one in failures if one.startswith("unknown: "))
    assert CONTRACT_REASON in failure


def _held(power_shown: bool | None) -> Judgement:
    return Judgement(
        guarantee=ORDER,
        verdict=Verdict.HELD,
        power_shown=power_shown,
        violation_seen=False,
        share=None,
        mechanism=CONTRACT_REASON,
    )


def test_held_without_shown_power_has_its_own_sign_and_words_everywhere(says: Says) -> None:
    """In the terminal's table, the report and the legend; a sweep of an older version has none."""
    shown, hidden, older = map(_held, (True, False, None))
    assert (verdict_sign(shown), verdict_sign(hidden), verdict_sign(older)) == ("✓", "(✓)", "✓")
    assert verdict_text(shown) == "guaranteed and held"
    says(verdict_text(hidden))
    says(LEGEND)


def test_the_summary_run_counts_what_held_without_shown_power(says: Says) -> None:
    """The tag of the guarantee says it, and the summary has its number."""
    sweep = _sweep_with_unknown_verdict(None)
    cells = [
        cell.model_copy(update={"judgements": (_held(power_shown=False),)}) for cell in sweep.cells
    ]
    says(count_verdicts(cells, ORDER))
    results = sweep.model_copy(update={"cells": tuple(cells)})
    assert dict(verdict_metrics(results))["verdicts_held_power_not_shown"] == 1
