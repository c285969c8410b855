"""Lesson 17: most languages wrap librdkafka, Java has its own client. Whether the two keep the same promises, with the same settings and with their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.ledger.record import Scalar
from experiments.lessons.finding import (
    CLIENTS,
    LEAST_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    lossy,
    repeats_needed,
    trials_with,
)
from experiments.lessons.plots import ShareDot, SharesPlot
from experiments.verdicts.statistics import Share, words

LESSON = 17
_WHEN: Final = {
    "relay-reset": "when the leader's answers were lost",
    "leader-crash-behind": "when the leader died with its followers behind",
}
_REMARKS: Final = {
    Conclusion.SUPPORTED: "So it makes no difference which of the two is used.",
    Conclusion.PARTLY_SUPPORTED: (
        "So the same settings mean the same to both, and their defaults differ: Java's producer is idempotent by itself, "
        "librdkafka's only with enable.idempotence=true. Say it explicitly in either."
    ),
    Conclusion.REFUTED: "So the two behave differently under the same settings.",
    Conclusion.INCONCLUSIVE: "Too few trials were judged, or the fault showed nothing in either client.",
}


@dataclass(frozen=True)
class _Pair:
    """The same circumstances for both clients."""

    fault: str
    acks: Scalar
    own_defaults: bool
    lost: dict[str, Share]
    """By client."""
    repeated: dict[str, Share]

    @property
    def name(self) -> str:
        settings = (
            "each one's own defaults"
            if self.own_defaults
            else f"the same settings (acks={self.acks}, no idempotence)"
        )
        return f"{settings}, {_WHEN.get(self.fault, f'under {self.fault}')}"

    @property
    def trials(self) -> int:
        """Of the client that has fewer."""
        return min(found.of for found in self.lost.values())

    @property
    def alike(self) -> bool:
        """Whether both lost, or neither; and both stored records twice, or neither."""
        return all(
            len({one.seen > 0 for one in found.values()}) == 1
            for found in (self.lost, self.repeated)
        )

    @property
    def seen(self) -> dict[str, dict[str, Share]]:
        """What was seen in either client, with both their shares."""
        return {
            what: found
            for what, found in (("lost", self.lost), ("stored twice", self.repeated))
            if any(one.seen for one in found.values())
        }


def find(material: FindingInput) -> Finding:
    """Return what each client lost and stored twice under the same faults."""
    pairs = _pairs(material)
    conclusion = _conclude(pairs)
    shares = [found for pair in pairs for found in (*pair.lost.values(), *pair.repeated.values())]
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        sentences=tuple(map(_told, pairs)) or ("No trial was judged.",),
        remark=_REMARKS[conclusion],
        repeats_needed=repeats_needed(conclusion, shares),
        plot=SharesPlot(
            caption="Trials in which acknowledged records were lost, or stored twice",
            rows=tuple(row for pair in pairs for row in _rows(pair)),
        ),
    )


def _pairs(material: FindingInput) -> list[_Pair]:
    """Return what both clients were asked, in the order of the cells."""
    asked = dict.fromkeys(
        (str(cell.cell["fault"]), cell.cell["acks"], cell.cell["client.defaults"] is True)
        for cell in material.cells()
    )
    made = [_pair(material, *circumstances) for circumstances in asked]
    return [pair for pair in made if pair.trials]


def _pair(material: FindingInput, fault: str, acks: Scalar, own_defaults: bool) -> _Pair:
    trials = {
        client: material.trials(
            client=client, fault=fault, acks=acks, client__defaults=own_defaults
        )
        for client in CLIENTS
    }
    return _Pair(
        fault=fault,
        acks=acks,
        own_defaults=own_defaults,
        lost={client: lossy(of) for client, of in trials.items()},
        repeated={
            client: trials_with(of, lambda trial: trial.duplicates) for client, of in trials.items()
        },
    )


def _told(pair: _Pair) -> str:
    """Only what was seen in either client."""
    told = [f"{what} by {_each(found)}" for what, found in pair.seen.items()]
    return f"With {pair.name}, acknowledged records were {', and '.join(told) or 'neither lost nor stored twice'}."


def _each(found: Mapping[str, Share]) -> str:
    return "; ".join(f"{CLIENTS[client]} in {words(of)}" for client, of in found.items())


def _rows(pair: _Pair) -> list[ShareDot]:
    return [
        ShareDot(name=f"{what}: {CLIENTS[client]}, {pair.name}", share=share)
        for what, found in pair.seen.items()
        for client, share in found.items()
    ]


def _conclude(pairs: Sequence[_Pair]) -> Conclusion:
    """In part, where the same settings do the same and the clients' own do not."""
    same, own = (
        [pair for pair in pairs if not pair.own_defaults],
        [pair for pair in pairs if pair.own_defaults],
    )
    if (
        not same
        or not own
        or min(pair.trials for pair in pairs) < LEAST_TRIALS
        or not all(pair.seen for pair in same)
    ):
        return Conclusion.INCONCLUSIVE
    if not all(pair.alike for pair in same):
        return Conclusion.REFUTED
    return Conclusion.SUPPORTED if all(pair.alike for pair in own) else Conclusion.PARTLY_SUPPORTED
