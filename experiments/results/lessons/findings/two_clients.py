"""Lesson 17: most languages wrap librdkafka, Java has a client of its own.

Measures whether both keep the same guarantees, with the same settings and with their own defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.results.lessons.criterion import conclude, outcome
from ackbench.experiments.results.lessons.finding import (
    CLIENT_NAMES,
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    repeats_needed,
    share_with,
    share_with_loss,
)
from ackbench.experiments.results.lessons.plots import ShareDot, SharesPlot
from ackbench.experiments.verdicts.statistics import CONFIDENCE, Share, describe_share

_WHEN: Final = {
    "relay-reset": "when the leader's responses were lost",
    "leader-crash-behind": "when the leader crashed while its followers were behind",
}


@dataclass(frozen=True)
class _Case:
    """The same fault and settings for both clients."""

    fault: str
    acks: Scalar
    own_defaults: bool
    lost: dict[str, Share]
    """By client."""
    duplicated: dict[str, Share]
    """By client."""
    reordered: dict[str, Share]
    """By client."""

    @property
    def name(self) -> str:
        if self.own_defaults:
            settings = "each client's own defaults"
        else:
            settings = f"the same settings (acks={self.acks}, no idempotence)"
        return f"{settings}, {_WHEN.get(self.fault, f'under {self.fault}')}"

    @property
    def trials(self) -> int:
        """Number of trials of the client that has fewer."""
        return min(share.of for share in self.lost.values())

    @property
    def effects(self) -> dict[str, Mapping[str, Share]]:
        """What may happen to acknowledged records, with the shares of both clients."""
        return {"lost": self.lost, "duplicated": self.duplicated, "out of order": self.reordered}

    @property
    def observed(self) -> dict[str, Mapping[str, Share]]:
        """What happened with at least one client, with the shares of both."""
        return {
            effect: shares
            for effect, shares in self.effects.items()
            if any(share.seen for share in shares.values())
        }

    @property
    def differing(self) -> list[str]:
        """What happened with one client more often than with the other, beyond chance."""
        return [effect for effect, shares in self.effects.items() if _differ(*shares.values())]

    @property
    def is_alike(self) -> bool:
        """Whether each effect was seen with both clients, or with neither."""
        return all(
            len({share.seen > 0 for share in shares.values()}) == 1
            for shares in self.effects.values()
        )


def _differ(one: Share, other: Share) -> bool:
    """Return whether two shares differ, by Fisher's exact two-sided test at 5 %."""
    from scipy.stats import fisher_exact

    if not (one.of and other.of):
        return False
    table = [[share.seen, share.of - share.seen] for share in (one, other)]
    return bool(fisher_exact(table).pvalue < 1 - CONFIDENCE)


def find(data: FindingInput) -> Finding:
    """Return what each client lost and duplicated under the same faults."""
    cases = _cases(data)
    conclusion = _conclusion(cases)
    shares = [share for case in cases for share in (*case.lost.values(), *case.duplicated.values())]
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=tuple(map(_sentence, cases)) or ("No trial was judged.",),
        remark=_remark(conclusion, cases),
        repeats_needed=repeats_needed(conclusion, shares),
        plot=SharesPlot(
            caption="Trials in which acknowledged records were lost, duplicated or out of order",
            rows=tuple(dot for case in cases for dot in _dots(case)),
        ),
    )


def _cases(data: FindingInput) -> list[_Case]:
    """Return the cases in the order of the cells; without those that have no trial of a client."""
    circumstances = dict.fromkeys(
        (str(cell.cell["fault"]), cell.cell["acks"], cell.cell["client.defaults"] is True)
        for cell in data.cells()
    )
    cases = [_case(data, *each) for each in circumstances]
    return [case for case in cases if case.trials]


def _case(data: FindingInput, fault: str, acks: Scalar, own_defaults: bool) -> _Case:
    trials = {
        client: data.trials(client=client, fault=fault, acks=acks, client__defaults=own_defaults)
        for client in CLIENT_NAMES
    }
    return _Case(
        fault=fault,
        acks=acks,
        own_defaults=own_defaults,
        lost={client: share_with_loss(of_client) for client, of_client in trials.items()},
        duplicated={
            client: share_with(of_client, lambda trial: trial.duplicates)
            for client, of_client in trials.items()
        },
        reordered={
            client: share_with(of_client, lambda trial: trial.reordered)
            for client, of_client in trials.items()
        },
    )


def _sentence(case: _Case) -> str:
    effects = [
        f"{effect} by {_describe_clients(shares)}" for effect, shares in case.observed.items()
    ]
    outcome = ", and ".join(effects) or "neither lost, duplicated nor out of order"
    return f"With {case.name}, acknowledged records were {outcome}."


def _describe_clients(shares: Mapping[str, Share]) -> str:
    return "; ".join(
        f"{CLIENT_NAMES[client]} in {describe_share(share)}" for client, share in shares.items()
    )


def _dots(case: _Case) -> Iterator[ShareDot]:
    for effect, shares in case.observed.items():
        for client, share in shares.items():
            yield ShareDot(name=f"{effect}: {CLIENT_NAMES[client]}, {case.name}", share=share)


def _conclusion(cases: Sequence[_Case]) -> Conclusion:
    """Return whether the clients are alike; partly, if only their own defaults differ."""
    same = [case for case in cases if not case.own_defaults]
    own = [case for case in cases if case.own_defaults]
    enough = bool(same and own) and min(case.trials for case in cases) >= MIN_TRIALS
    shown = all(case.observed for case in same)
    return conclude(
        [
            outcome(
                met=any(case.differing for case in same),
                measured=enough and shown and all(case.is_alike for case in same),
            )
        ],
        [outcome(met=False, measured=all(case.is_alike or case.differing for case in own))],
        limited=any(case.differing for case in own),
    )


def _remark(conclusion: Conclusion, cases: Sequence[_Case]) -> str:
    """Return in what the clients differ; what was not observed with either is not compared."""
    if conclusion is Conclusion.INCONCLUSIVE:
        return (
            "Too few trials were judged, or neither client showed an effect of a fault, or one "
            "did in too few trials to tell it from the other."
        )
    same, own = (
        list(
            dict.fromkeys(
                effect for case in cases if case.own_defaults is is_own for effect in case.differing
            )
        )
        for is_own in (False, True)
    )
    if same:
        return f"With the same settings the clients differ: records {format_list(same)}."
    compared = dict.fromkeys(
        effect for case in cases if not case.own_defaults for effect in case.observed
    )
    remark = (
        "With the same settings both clients showed the same effects: records "
        f"{format_list(list(compared))}."
    )
    if own:
        remark += (
            f" With their own defaults they differ: records {format_list(own)}. Java's producer is "
            "idempotent by default, librdkafka's only with enable.idempotence=true: set it "
            "explicitly in both."
        )
    elif conclusion is Conclusion.PARTLY_SUPPORTED:
        remark += " With their own defaults the figures do not decide whether they differ."
    return remark
