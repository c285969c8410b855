"""The words of results that the terminal, the page and the gate share."""

from experiments.comparing.gate import Gate
from experiments.results.models import CellResult, SweepResults
from experiments.results.wording import result_notes
from experiments.verdicts.contract import ContractClause, Guarantee
from experiments.verdicts.judge import Judgement, Verdict

CONTRACT_REASON = "Kafka's version is unknown"
OBSERVATION = "records were stored more than once in 0 of 5 trials"


def _sweep_with_unknown_verdict(guaranteed: bool | None) -> SweepResults:
    clause = ContractClause(
        guarantee=Guarantee.NO_DUPLICATES,
        guaranteed=guaranteed,
        reason=CONTRACT_REASON,
        source="https://kafka.apache.org/documentation/#semantics",
    )
    judgement = Judgement(
        guarantee=Guarantee.NO_DUPLICATES,
        verdict=Verdict.UNKNOWN,
        seen=False,
        share=None,
        reasons=(CONTRACT_REASON, OBSERVATION),
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
    )


def test_a_verdict_is_explained_by_the_contract_if_the_contract_does_not_know() -> None:
    """A guarantee whose rule knows the outcome is explained by what was observed."""
    unknown_rule, known_rule = map(_sweep_with_unknown_verdict, (None, True))
    (note,) = result_notes(unknown_rule)
    assert f"acks=all: {CONTRACT_REASON}; {OBSERVATION}" in note.text
    (note,) = result_notes(known_rule)
    assert note.text.endswith(f"acks=all: {OBSERVATION}")


def test_the_gate_names_the_same_reason_as_the_notes() -> None:
    """`--fail-on unknown` says what is not known of the cell."""
    (failure,) = Gate(unknown=True).sweep_failures(_sweep_with_unknown_verdict(None))
    assert CONTRACT_REASON in failure
