"""The guarantees of Kafka, one module each, and the vocabulary of their rules.

A guarantee's module declares all that is known of it; everything else iterates over `GUARANTEES`.
The judge, statistics and what only results can tell do not belong here.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import PlainSerializer, PlainValidator

from ackbench.experiments.verdicts.guarantees import (
    atomicity,
    availability,
    consumers_agree,
    duplicates,
    last_value_kept,
    loss,
    missed_records,
    order,
    read_availability,
    read_loss,
    reprocessing,
)
from ackbench.experiments.verdicts.guarantees.guarantee import Guarantee

__all__ = ["GUARANTEES", "Guarantee", "NamedGuarantee", "guarantee_named"]

GUARANTEES: Final[tuple[Guarantee, ...]] = (
    loss.NO_ACKED_LOSS,
    duplicates.NO_DUPLICATES,
    order.ORDER,
    read_loss.NO_READ_LOSS,
    consumers_agree.CONSUMERS_AGREE,
    last_value_kept.LAST_VALUE_KEPT,
    atomicity.ATOMICITY,
    availability.AVAILABILITY,
    read_availability.READ_AVAILABILITY,
    missed_records.NO_MISSED_RECORDS,
    reprocessing.NO_REPROCESSING,
)
"""In the order in which they are judged and shown."""
_BY_NAME: Final = {guarantee.name: guarantee for guarantee in GUARANTEES}


def guarantee_named(name: str | Guarantee) -> Guarantee:
    """Return a guarantee by its name.

    Raises:
        ValueError: there is none of this name.
    """
    found = name if isinstance(name, Guarantee) else _BY_NAME.get(str(name))
    if found is None:
        raise ValueError(f"unknown guarantee {name}; allowed: {', '.join(_BY_NAME)}")
    return found


NamedGuarantee = Annotated[Guarantee, PlainValidator(guarantee_named), PlainSerializer(str)]
"""The type of a field, or of a key, of a model: JSON has the guarantee's name."""
