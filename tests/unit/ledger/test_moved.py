"""Settings of the load that had another place, in experiments and in stored documents."""

from typing import Any

import pytest
from pydantic import ValidationError
from support.builders.flat_loads import FLAT, NEW_PLACES
from support.golden_files import Says

from ackbench.experiments.ledger.moved import (
    lift_cell,
    lift_label,
    lift_load,
    lift_settings,
    moved_axis,
)
from ackbench.experiments.ledger.planned import FaultRequest
from ackbench.experiments.ledger.trial_manifest import FaultEvidence, KeyOptions
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.overrides import Overrides, apply_overrides
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.sweep.workload import (
    LOAD_SECTIONS,
    Copiers,
    GroupMembers,
    Members,
    Workload,
)

OF_ALL_MEMBERS = {"slow_members", "slow_records_per_s", "auto_offset_reset", "commit_every_records"}
EXPERIMENT: dict[str, Any] = {
    "name": "x",
    "title": "x",
    "question": "x",
    "axes": {"fault": "none"},
    "controls": False,
}


@pytest.mark.parametrize(("name", "place"), NEW_PLACES.items())
def test_an_old_key_is_refused_with_its_new_place(name: str, place: str) -> None:
    """In the file, as an axis and as an override, each in one line."""
    others = f" (of copiers: copy.{name})" if name in OF_ALL_MEMBERS else ""
    line = f"workload.{name} is now {place}{others}"
    with pytest.raises(ExperimentError) as in_file:
        parse_experiment({**EXPERIMENT, "workload": {name: FLAT[name]}}, "x.yaml")
    assert str(in_file.value) == f"x.yaml: {line}"
    swept = parse_experiment({**EXPERIMENT, "axes": {f"workload.{name}": [FLAT[name]]}}, "x.yaml")
    with pytest.raises(ExperimentError) as as_axis:
        plan(swept, "x")
    assert str(as_axis.value) == line
    experiment = parse_experiment(EXPERIMENT, "x.yaml")
    overrides = Overrides({f"workload.{name}": (FLAT[name],)})
    with pytest.raises(ExperimentError) as as_override:
        apply_overrides(experiment, overrides)
    assert str(as_override.value) == f"--set workload.{name}: {line}"


COMMAND = {"strike": '["kill", "$LEADER"]', "heal": '["start"]'}


def test_the_old_name_of_a_commands_parameter_is_refused_with_the_new_one() -> None:
    """Of every fault by command, and of no other."""
    faults = {"mine": {"kind": "command", **COMMAND}, "leader-crash": {"strike": 1}}
    with pytest.raises(ExperimentError) as refused:
        parse_experiment({**EXPERIMENT, "faults": faults}, "x.yaml")
    assert str(refused.value) == "x.yaml: faults.mine.strike is now faults.mine.inject"


@pytest.mark.parametrize("stored", [FaultRequest, FaultEvidence])
def test_a_stored_fault_by_command_is_read_with_its_parameters_new_name(
    stored: type[FaultRequest | FaultEvidence],
) -> None:
    """In the plan and in the trial's manifest; a fault of another kind keeps its parameters."""
    evidence = {"took_effect": True} if stored is FaultEvidence else {}
    read = stored.model_validate({"kind": "command", "parameters": COMMAND, **evidence})
    assert read.parameters == {"inject": COMMAND["strike"], "heal": COMMAND["heal"]}
    other = stored.model_validate({"kind": "leader-crash", "parameters": {"strike": 1}, **evidence})
    assert other.parameters == {"strike": 1}


@pytest.mark.parametrize("stored", [FaultRequest, FaultEvidence])
@pytest.mark.parametrize("parameters", [["strike"], "strike", None, 7])
def test_a_stored_fault_whose_parameters_are_none_is_refused_by_its_model(
    stored: type[FaultRequest | FaultEvidence], parameters: object
) -> None:
    """A plan or a manifest may come from anybody."""
    with pytest.raises(ValidationError, match="parameters"):
        stored.model_validate({"kind": "command", "parameters": parameters, "took_effect": True})


def test_all_old_keys_of_a_file_are_in_one_line(says: Says) -> None:
    """They are moved at once."""
    load = {"keys": 64, "consumers": 2, "duration_s": 5}
    with pytest.raises(ExperimentError) as refused:
        parse_experiment({**EXPERIMENT, "workload": load}, "x.yaml")
    says(str(refused.value))


def test_every_setting_of_a_flat_load_has_a_place_in_a_section() -> None:
    """Either it has moved, or it is still one of `workload`."""
    for name in FLAT:
        section, _, setting = NEW_PLACES.get(name, f"workload.{name}").partition(".")
        assert not setting or setting in LOAD_SECTIONS[section].model_fields
        assert (moved_axis(f"workload.{name}") is None) == (name not in NEW_PLACES)


def test_a_stored_load_is_read_with_the_sections_that_it_has() -> None:
    """Without transactions, consumers and copiers, their other settings said nothing."""
    load = Workload.model_validate(FLAT)
    assert (load.keys.count, load.keys.pairs, load.keys.placement) == (8, "common", True)
    assert (load.transactions, load.group, load.copies) == (None, None, None)
    assert (load.producers, load.headers, load.duration_s) == (2, 1, 5)
    assert load.settings().keys() == {"workload", "keys"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"transaction_records": 250, "abort_every": 4},
            {"transactions": {"records": 250, "abort_every": 4}},
        ),
        (
            {"consumers": 2, "commit": "before", "slow_members": 1, "slow_records_per_s": 5.0},
            {
                "group": {
                    **GroupMembers().model_dump(),
                    "consumers": 2,
                    "commit": "before",
                    "slow_members": 1,
                    "slow_records_per_s": 5.0,
                    "auto_offset_reset": "latest",
                    "commit_every_records": 100,
                }
            },
        ),
        (
            {"kind": "copy", "copiers": 3, "delivery": "exactly-once"},
            {
                "copy": {
                    **Members().model_dump(),
                    "copiers": 3,
                    "delivery": "exactly-once",
                    "auto_offset_reset": "latest",
                    "commit_every_records": 100,
                }
            },
        ),
    ],
    ids=["transactions", "group", "copy"],
)
def test_a_stored_load_keeps_all_its_settings(
    changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Those that groups and copiers share are the copiers' in a load that copies."""
    load = Workload.model_validate({**FLAT, **changes})
    settings = load.settings()
    assert {
        name: settings[name] for name in settings if name not in {"workload", "keys"}
    } == expected


def test_a_load_with_sections_is_read_as_it_is() -> None:
    """Also as JSON."""
    load = Workload(copies=Copiers(copiers=2))
    assert Workload.model_validate_json(load.model_dump_json()) == load
    assert lift_load(load.model_dump()) == load.model_dump()


def test_a_load_that_is_not_a_stored_one_has_no_setting_at_an_old_place() -> None:
    """It is refused, not dropped."""
    with pytest.raises(ValidationError, match="groups"):
        Workload.model_validate({"groups": 2})


def test_the_axes_of_a_stored_cell_have_their_new_names() -> None:
    """In their order; without transactions the cell says nothing about aborts, as a new one."""
    cell = {"acks": 1, "workload.transaction_records": 250, "workload.abort_every": 4}
    assert lift_cell(cell) == {
        "acks": 1,
        "transactions.records": 250,
        "transactions.abort_every": 4,
    }
    assert lift_cell({**cell, "workload.transaction_records": 0}) == {
        "acks": 1,
        "transactions.records": 0,
        "transactions.abort_every": None,
    }
    others = {"acks": 1, "workload.duration_s": 5, "workload.kind": "copy", "keys.count": 3}
    assert lift_cell(others) == others


def test_axes_that_groups_and_copiers_share_are_copiers_with_an_axis_of_copiers() -> None:
    """Else they are taken for the group's."""
    slow = {"workload.slow_members": 1}
    assert lift_cell(slow) == {"group.slow_members": 1}
    assert lift_cell({**slow, "workload.delivery": "exactly-once"}) == {
        "copy.slow_members": 1,
        "copy.delivery": "exactly-once",
    }


def test_a_stored_label_names_the_same_axes_as_its_cell() -> None:
    """Words of the label select cells of a trend."""
    old = "acks=1 idem=off RF=3 P=1 none workload.transaction_records={} workload.abort_every={}"
    new = "acks=1 idem=off RF=3 P=1 none transactions.records={} transactions.abort_every={}"
    assert lift_label(old.format(250, 4)) == new.format(250, 4)
    assert lift_label(old.format(0, 0)) == new.split(" transactions.abort", maxsplit=1)[0].format(0)
    assert lift_label("acks=1 workload.duration_s=5") == "acks=1 workload.duration_s=5"


def test_stored_settings_are_those_that_a_new_sweep_has() -> None:
    """Scope and name of each, without those of sections that the load does not have."""
    old = {f"workload {name}": str(value) for name, value in FLAT.items()}
    lifted = lift_settings({"producer acks": "1", **old, "workload client": "java"})
    load = Workload.model_validate(FLAT)
    assert lifted == {
        "producer acks": "1",
        "workload client": "java",
        **{
            f"{section} {name}": str(value)
            for section, values in load.settings().items()
            for name, value in values.items()
        },
    }


def test_the_keys_of_an_earlier_ledger_are_counted_under_their_old_name() -> None:
    """`trial.json` had `keys` where it has `count`."""
    assert KeyOptions.model_validate({"keys": 9, "pairs": "own"}) == KeyOptions(
        count=9, pairs="own"
    )
