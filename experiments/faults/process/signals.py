"""A signal to a process: whom (`experiments.faults.process.targets`) times what (`experiments.faults.process.verbs`)."""

from __future__ import annotations

from typing import Final

from experiments.faults.base import FaultKind, FaultParameters, Scene
from experiments.faults.base.nature import Nature, Shape
from experiments.faults.process.parameters import FAMILY
from experiments.faults.process.targets import EVERYBODY, Whom
from experiments.faults.process.verbs import VERBS, Verb, confirmed
from experiments.ledger.record import FaultEvidence


def _kind(whom: Whom, verb: Verb) -> FaultKind:
    """Return the fault that does this to those."""
    name = f"{whom.name}-{verb.name}"

    def strike(scene: Scene, asked: FaultParameters) -> FaultEvidence:
        scene.until(asked.at_s)
        struck = whom.find(scene, asked)
        bit = verb.act(scene, whom, struck, asked)
        return FaultEvidence(kind=name, targets=struck.nodes, bit=bit, evidence=tuple(scene.facts))

    def nature(kind: str, asked: FaultParameters, shape: Shape) -> Nature:
        one = verb.nature(kind, asked, shape)
        count = {"kills" if one.kills else "stalled": whom.count(shape)}
        return one.model_copy(update={"strikes_leader": whom.leads(shape), **count})

    summary = f"{whom.words} {whom.verb} {verb.words}"
    return FaultKind(name, FAMILY, summary, verb.parameters(whom), strike, nature, confirmed=confirmed(verb, whom))


KINDS: Final = tuple(_kind(whom, verb) for verb in VERBS for whom in EVERYBODY)
