"""Lesson 19: a delayed commit decides the next transaction, unless both sides speak KIP-890.

`transaction.version=2` and a client that speaks it refuse the late request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.lessons.criterion import conclude, outcome
from ackbench.experiments.lessons.finding import (
    CLIENT_NAMES,
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    repeats_needed,
    share_with,
)
from ackbench.experiments.lessons.plots import ShareDot, SharesPlot
from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.results.models import TrialResult
from ackbench.experiments.verdicts.statistics import Share, describe_share

FAULT: Final = "end-txn-delayed"
REFUSES_LATE_REQUESTS: Final = frozenset({("java", 2)})
"""Client and level of `transaction.version` with which no transaction may be torn."""
_HELD: Final = re.compile(
    r"a relay held EndTxn v(?P<version>\d+) .* answered with error (?P<error>\d+)"
)
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: (
        "A transaction is atomic under a late commit only if brokers and client both speak "
        "transaction.version=2."
    ),
    Conclusion.REFUTED: "The lesson does not hold here.",
    Conclusion.INCONCLUSIVE: "Too few trials were judged in which the late commit was delivered.",
}


@dataclass(frozen=True)
class _Case:
    """A client and a level of `transaction.version`."""

    client: str
    level: int
    trials: Sequence[TrialResult]
    """With the delayed commit."""

    @property
    def torn(self) -> Share:
        """The share of trials with a transaction that is not atomic."""
        return share_with(self.trials, _violations)

    @property
    def may_be_torn(self) -> bool:
        return (self.client, self.level) not in REFUSES_LATE_REQUESTS

    @property
    def name(self) -> str:
        return f"{CLIENT_NAMES.get(self.client, self.client)}, transaction.version={self.level}"

    @property
    def request(self) -> str:
        """The held requests and their answers: `EndTxn 5, answered with error 90`."""
        held = [
            match
            for trial in self.trials
            if trial.fault
            for sentence in trial.fault.evidence
            if (match := _HELD.match(sentence))
        ]
        versions, errors = (sorted({match[name] for match in held}) for name in _HELD.groupindex)
        answer = "no error" if errors == ["0"] else f"error {format_list(errors)}"
        return f"EndTxn {format_list(versions)}, answered with {answer}" if held else "EndTxn"


def find(data: FindingInput) -> Finding:
    """Return in how many trials each client's late commit tore the next transaction."""
    cases = _cases(data)
    undisturbed = share_with(data.trials(fault="none"), _violations)
    conclusion = _conclusion(cases, undisturbed)
    sentences = [
        f"{case.name} ({case.request}): transactions were torn in {describe_share(case.torn)}."
        for case in cases
        if case.trials
    ]
    if undisturbed.of:
        sentences.append(f"Without a fault: {describe_share(undisturbed)}.")
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        lead="A commit was delivered when the producer's next transaction had begun.",
        sentences=tuple(sentences) or ("No trial was judged.",),
        remark=_REMARK_BY_CONCLUSION[conclusion],
        repeats_needed=repeats_needed(conclusion, [case.torn for case in cases]),
        plot=SharesPlot(
            caption="Trials in which a late commit tore the next transaction",
            rows=tuple(ShareDot(name=case.name, share=case.torn) for case in cases if case.trials),
        ),
    )


def _cases(data: FindingInput) -> list[_Case]:
    pairs = dict.fromkeys(
        (str(cell.cell["client"]), int(str(cell.cell["transaction.version"])))
        for cell in data.cells(fault=FAULT)
    )
    return [
        _Case(client, level, data.trials(client=client, transaction__version=level, fault=FAULT))
        for client, level in pairs
    ]


def _violations(trial: TrialResult) -> int | None:
    return trial.atomicity_violations


def _conclusion(cases: Sequence[_Case], undisturbed: Share) -> Conclusion:
    torn = [case.torn for case in cases if case.may_be_torn]
    kept = [case.torn for case in cases if not case.may_be_torn]
    return conclude(
        [
            outcome(
                met=any(share.seen for share in kept),
                measured=bool(kept) and all(share.of >= MIN_TRIALS for share in kept),
            ),
            outcome(met=undisturbed.seen > 0, measured=undisturbed.of >= MIN_TRIALS),
            outcome(
                met=any(share.of >= MIN_TRIALS and not share.seen for share in torn),
                measured=bool(torn) and all(share.of >= MIN_TRIALS for share in torn),
            ),
        ]
    )
