"""The guarantees: what their objects name exists, and models have them by name."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Final

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from ackbench.experiments.ledger.result_tables import TRIALS
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.verdicts import guarantees
from ackbench.experiments.verdicts.guarantees import (
    GUARANTEES,
    Guarantee,
    NamedGuarantee,
    guarantee_named,
)
from ackbench.experiments.verdicts.judge import HarnessCheck, TrialFacts

COUNTS: Final = TypeAdapter(dict[NamedGuarantee, int])


def test_every_guarantee_that_a_module_declares_is_listed_once() -> None:
    """A guarantee that is not listed is neither judged nor shown."""
    declared = {
        value.name
        for module in pkgutil.iter_modules(guarantees.__path__)
        for value in vars(import_module(f"{guarantees.__name__}.{module.name}")).values()
        if isinstance(value, Guarantee)
    }
    assert sorted(one.name for one in GUARANTEES) == sorted(declared)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_what_a_guarantee_names_exists(guarantee: Guarantee) -> None:
    """Facts of trials, values of cells, columns, faults, and results of controls."""
    violated_by = guarantee.violated_by
    facts = {violated_by.value, getattr(violated_by, "tested_by", "")} - {""}
    cell = {guarantee.figure, guarantee.measured_with} - {""}
    assert all(name in TrialFacts.model_fields or hasattr(TrialFacts, name) for name in facts)
    assert all(name in CellResult.model_fields or hasattr(CellResult, name) for name in cell)
    assert {guarantee.trials_column} - {""} <= set(TRIALS.names)
    assert set(guarantee.shown_by) <= FAULTS.keys()
    assert guarantee.control is None or guarantee.control.result in HarnessCheck.model_fields


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_what_applies_to_some_cells_says_what_is_measured_of_them_only(
    guarantee: Guarantee,
) -> None:
    """Or else no legend would explain the head of its column."""
    assert bool(guarantee.measured_with) == (guarantee.applies is not None)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_the_last_rule_of_a_guarantee_decides_whatever_the_cell(guarantee: Guarantee) -> None:
    """So that each cell has a clause."""
    assert guarantee.rules[-1].condition.startswith(("anything else", "all ", "commit "))


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_a_model_has_a_guarantee_by_its_name(guarantee: Guarantee) -> None:
    """Written and read again, it is the same object."""
    written = COUNTS.dump_json({guarantee: 1})
    assert written == f'{{"{guarantee.name}":1}}'.encode()
    assert [one is guarantee for one in COUNTS.validate_json(written)] == [True]


def test_an_unknown_name_is_an_error_that_names_those_that_exist() -> None:
    """Of a value and of a model."""

    class Holder(BaseModel):
        guarantee: NamedGuarantee

    with pytest.raises(ValueError, match="unknown guarantee no-loss; allowed: no-acked-loss, "):
        guarantee_named("no-loss")
    with pytest.raises(ValidationError, match="unknown guarantee 7"):
        Holder.model_validate({"guarantee": 7})


def test_the_columns_that_count_violations_in_every_trial_are_found() -> None:
    """Other quantities may be null, as of a trial without consumers; or a gap, and no number."""
    columns = {one.name: one.trials_column for one in GUARANTEES if one.trials_column}

    assert columns == {
        "no-acked-loss": "lost_low_records",
        "no-duplicates": "duplicates",
        "order": "reordered_records",
    }
