"""The evidence of a verdict, as codes and figures; `experiments.verdicts.sentences` has the words.

Each kind of evidence is a class whose `code` names it, in JSON too.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import Frozen, Status
from ackbench.experiments.verdicts.guarantees.violations import Doubt


class UnknownCause(StrEnum):
    """Why a verdict is unknown; the first that applies."""

    CONTROL_NOT_CLEAN = "control-not-clean"
    CONTRACT = "contract"
    """No rule of the contract knows whether Kafka guarantees it to the cell."""
    NO_SEALED_TRIAL = "no-sealed-trial"
    INCONCLUSIVE = "inconclusive"
    """A sealed trial cannot tell, and none shows a violation."""
    POSITIVE_CONTROL_FAILED = "positive-control-failed"


class ControlNotClean(Frozen):
    """The control, a cell without a fault, lost or duplicated records, or showed another defect."""

    code: Literal["control-not-clean"] = "control-not-clean"


class NoSealedTrial(Frozen):
    """The cell has no trial that may count."""

    code: Literal["no-sealed-trial"] = "no-sealed-trial"


class Observed(Frozen):
    """Sealed trials that can tell: the judgement has their share, and those with a violation."""

    code: Literal["observed"] = "observed"


class ObservedSetAside(Frozen):
    """A violation in a void, incomplete or failed trial, which is in no share."""

    code: Literal["observed-set-aside"] = "observed-set-aside"
    trial_id: str
    status: Status
    count: int


class Inconclusive(Frozen):
    """Sealed trials that cannot tell."""

    code: Literal["inconclusive"] = "inconclusive"
    doubt: Doubt
    trials: tuple[str, ...]
    of: int
    """All sealed trials of the cell."""
    at_most: tuple[int, ...] = ()
    """For `NOT_BOUNDED`: the upper bound of each trial."""


class PositiveControlFailed(Frozen):
    """The positive control of the guarantee did not show a violation in each of its trials."""

    code: Literal["positive-control-failed"] = "positive-control-failed"


class PowerNotShown(Frozen):
    """No trial of the sweep showed a violation, so it does not show that it would detect one."""

    code: Literal["power-not-shown"] = "power-not-shown"


class SetAside(Frozen):
    """Trials of one status that are in no share."""

    code: Literal["set-aside"] = "set-aside"
    status: Status
    reasons: Mapping[str, str | None]
    """By trial; null: none was recorded."""


class GeneratorLate(Frozen):
    """Judged trials in which the load generator fell behind its schedule."""

    code: Literal["generator-late"] = "generator-late"
    trials: tuple[str, ...]


class Stalled(Frozen):
    """Judged trials whose processes were kept from running, neither by Kafka nor by the fault."""

    code: Literal["stalled"] = "stalled"
    first: Mapping[str, str]
    """The first stall of each trial."""


Evidence = Annotated[
    ControlNotClean
    | NoSealedTrial
    | Observed
    | ObservedSetAside
    | Inconclusive
    | PositiveControlFailed
    | PowerNotShown
    | SetAside
    | GeneratorLate
    | Stalled,
    Field(discriminator="code"),
]
