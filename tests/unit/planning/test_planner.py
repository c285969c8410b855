"""From an experiment to its plan: every name is resolved and every cell is planned or refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.fakes.client_rules import RULES

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.catalog.loading import catalog_experiments, load_experiment
from ackbench.experiments.planning.experiment import Experiment, parse_experiment
from ackbench.experiments.planning.overrides import Overrides, apply_overrides, parse_override
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.planning.yaml_reader import parse_yaml
from ackbench.experiments.sweep.cell_names import cell_label
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.trial.faults import FAULTS
from ackbench.infra.errors import InputError

DOCS = Path(__file__).parents[3] / "docs"


def experiment(**changes: Any) -> Experiment:
    """Return a small experiment without controls, with some keys replaced.

    `test_controls` tests the controls. The key `kafka.version` is written `kafka_version`.
    """
    small: dict[str, Any] = {
        "name": "small",
        "title": "t",
        "question": "q",
        "workload": {"duration_s": 10},
        "controls": False,
    }
    small["axes"] = {"acks": [0, 1, "all"], "fault": "none"}
    return parse_experiment(
        small | {key.replace("_", "."): value for key, value in changes.items()}, "small.yaml"
    )


def planned(**changes: Any) -> Plan:
    """Return the plan of a small experiment with some keys replaced."""
    return plan(experiment(**changes), "small-1", RULES)


def overridden(*overrides: str, **changes: Any) -> Plan:
    """Return the plan of a small experiment with overrides of the command line."""
    return plan(
        apply_overrides(
            experiment(**changes), Overrides(dict(map(parse_override, overrides))), RULES
        ),
        "small-1",
        RULES,
    )


def test_a_cross_product_gives_every_cell_once() -> None:
    """Three acks, idempotence off and on, and two partition counts: eight trials, four refused."""
    made = planned(
        axes={"acks": [0, 1, "all"], "enable.idempotence": [False, True], "partitions": [1, 6]}
    )

    assert (len(made.trials), len(made.refused)) == (8, 4)


def test_a_refused_cell_is_listed_once_with_the_clients_message() -> None:
    """A refused cell is listed once for all its repeats."""
    made = planned(axes={"acks": [1, "all"], "enable.idempotence": True}, repeats=3)

    assert [(cell.cell["acks"], cell.reason) for cell in made.refused] == [
        (1, "`acks` must be set to `all`")
    ]
    assert len(made.trials) == 3


def test_a_cell_in_two_cross_products_is_planned_once() -> None:
    """`-1` and `all` are the same acks, so the second cross product adds only one cell."""
    made = planned(axes=[{"acks": [0, "all"]}, {"acks": [-1, 1]}])

    assert sorted(str(trial.cell["acks"]) for trial in made.trials) == ["0", "1", "all"]


def test_every_cell_has_the_core_axes() -> None:
    """A core axis that the experiment does not name has its default value in the cell."""
    cell = planned(axes={"partitions": 2}).trials[0].cell

    assert cell == {
        "partitions": 2,
        "acks": "all",
        "enable.idempotence": False,
        "replication.factor": 3,
        "fault": "none",
    }


def test_an_axis_missing_from_a_cross_product_takes_the_value_of_the_section() -> None:
    """All cells of a union have the same axes."""
    made = planned(axes=[{"linger.ms": [0, 50]}, {"acks": 1}], producer={"linger.ms": 5})

    assert sorted(
        (str(trial.cell["acks"]), trial.cell["linger.ms"], trial.producer["linger.ms"])
        for trial in made.trials
    ) == [("1", 5, "5"), ("all", 0, "0"), ("all", 50, "50")]


@pytest.mark.parametrize(("replication_factor", "least"), [(1, "1"), (2, "2"), (3, "2")])
def test_majority_is_the_smallest_majority_of_the_replication_factor(
    replication_factor: int, least: str
) -> None:
    """It is more than half of the replicas, and at most all of them."""
    made = planned(
        axes={"replication.factor": replication_factor}, topic={"min.insync.replicas": "majority"}
    )

    assert made.trials[0].topic["min.insync.replicas"] == least


def test_the_same_repeat_of_every_cell_has_the_same_seed() -> None:
    """Cells are compared in pairs: seeds are equal within a repeat and differ between repeats."""
    made = planned(repeats=2)
    seeds = {(trial.repeat, trial.seed) for trial in made.trials}

    assert len(made.trials) == 6
    assert len(seeds) == len({seed for _, seed in seeds}) == 2


def test_the_seed_decides_the_order() -> None:
    """Equal seeds give equal orders, different seeds different orders of the same trials."""
    first, again, other = (planned(seed=seed, repeats=10) for seed in (1, 1, 2))
    cells = [
        [(str(trial.cell["acks"]), trial.repeat) for trial in made.trials]
        for made in (first, again, other)
    ]

    assert cells[0] == cells[1] != cells[2]
    assert sorted(cells[0]) == sorted(cells[2])


def test_trials_are_grouped_by_the_cluster_they_need() -> None:
    """A broker property as an axis needs one cluster per value, however the trials are shuffled."""
    made = planned(
        axes={"acks": [0, 1, "all"], "broker.session.timeout.ms": [4000, 9000]}, repeats=4
    )
    clusters = [trial.cluster.broker["broker.session.timeout.ms"] for trial in made.trials]

    assert clusters == ["4000"] * 12 + ["9000"] * 12


def test_trial_ids_are_unique_and_sort_in_the_order_of_the_trials() -> None:
    """They consist of the order and a digest, and are valid names of topics and files."""
    ids = [trial.trial_id for trial in planned(repeats=5).trials]

    assert ids == sorted(set(ids))
    assert all(len(trial_id) == 10 and trial_id.replace("-", "").isalnum() for trial_id in ids)


def test_settings_are_text_in_kafkas_spelling() -> None:
    """Booleans, integers and integral floats are spelled as Kafka expects them."""
    made = planned(
        axes={"enable.idempotence": True},
        topic={"retention.ms": 1e4, "preallocate": True},
        producer={"linger.ms": 0.5},
    )
    trial = made.trials[0]

    assert (
        trial.producer["enable.idempotence"],
        trial.topic["retention.ms"],
        trial.topic["preallocate"],
        trial.producer["linger.ms"],
    ) == ("true", "10000", "true", "0.5")


def test_an_alias_of_a_property_is_the_same_property() -> None:
    """`request.required.acks` is planned and shown as `acks`."""
    made = overridden("request.required.acks=1")

    assert [trial.producer["acks"] for trial in made.trials] == ["1"]


def test_two_values_for_one_property_under_two_names_are_refused() -> None:
    """The second one would otherwise replace the first without a word."""
    with pytest.raises(InputError, match=r"linger\.ms is given twice, as 5 and, .*, as 10"):
        planned(producer={"linger.ms": 5, "queue.buffering.max.ms": 10})


@pytest.mark.parametrize("name", ["acks", "request.required.acks"])
def test_a_property_beside_its_axis_is_refused(name: str) -> None:
    """No cell would have the section's value."""
    with pytest.raises(ExperimentError, match=f"producer.{name} is beside the axis acks"):
        planned(axes={"acks": [0, 1], "fault": "none"}, producer={name: 1})


def test_a_property_is_the_value_of_the_cells_that_its_axis_leaves_open() -> None:
    """In a union, and where the axis has the value `null`."""
    crosses = [{"acks": 0, "fault": "none"}, {"fault": "none"}]
    made = planned(axes=crosses, producer={"acks": 1})
    assert [trial.producer["acks"] for trial in made.trials] == ["0", "1"]


def test_an_override_replaces_a_property_under_any_of_its_names() -> None:
    """A single value and a new axis."""
    for text, values in (("linger.ms=3", {"3"}), ("linger.ms=3,4", {"3", "4"})):
        made = overridden(text, producer={"queue.buffering.max.ms": 7})
        assert {trial.producer["linger.ms"] for trial in made.trials} == values


def test_client_rack_without_a_prefix_belongs_to_the_consumer() -> None:
    """The producer would accept the property, but only a consumer uses it."""
    made = planned(axes={"acks": 1, "fault": "none", "client.rack": "rack-2"})

    assert [
        (trial.consumer.get("client.rack"), "client.rack" in trial.producer)
        for trial in made.trials
    ] == [("rack-2", False)]


def test_a_faults_parameter_can_be_an_axis() -> None:
    """Cells whose fault lacks the parameter become one cell."""
    made = planned(
        axes={"acks": 1, "fault": ["none", "leader-pause"], "fault.pause_s": [1, 2]},
        producer={"socket.timeout.ms": 500},
    )

    assert sorted(
        (trial.fault.kind, str(trial.fault.parameters.get("pause_s"))) for trial in made.trials
    ) == [("leader-pause", "1.0"), ("leader-pause", "2.0"), ("none", "None")]


def test_a_single_override_of_a_setting_that_is_no_axis_applies_to_all_cells() -> None:
    """It changes the workload and adds no axis to the cells."""
    made = overridden("workload.duration_s=3")

    assert {trial.workload.duration_s for trial in made.trials} == {3}
    assert "workload.duration_s" not in made.trials[0].cell


def test_several_values_of_an_override_become_an_axis() -> None:
    """Each value has its own cells."""
    made = overridden("linger.ms=0,50", "acks=all")

    assert sorted(trial.producer["linger.ms"] for trial in made.trials) == ["0", "50"]
    assert {trial.cell["linger.ms"] for trial in made.trials} == {0, 50}


def test_a_cells_label_has_the_core_axes_first() -> None:
    """The core axes have short names, and the others follow under their own names."""
    cell: Cell = {
        "linger.ms": 5,
        "acks": 1,
        "enable.idempotence": False,
        "replication.factor": 3,
        "partitions": 6,
        "fault": "leader-crash",
    }

    assert cell_label(cell) == "acks=1 idem=off RF=3 P=6 leader-crash linger.ms=5"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axes": {"acsk": [0]}}, "unknown axis acsk; did you mean acks?"),
        (
            {"axes": {"compression.type": ["lz4"]}},
            (
                "ambiguous axis compression.type: "
                "write producer.compression.type or topic.compression.type"
            ),
        ),
        (
            {"axes": {"linger.ms": [1], "producer.linger.ms": [2]}},
            "the axes linger.ms and producer.linger.ms are the same",
        ),
        ({"axes": {"listeners": ["x"]}}, "broker property listeners is set by ackbench itself"),
        ({"axes": {"acks": [2]}}, "producer property acks is 2; allowed: 0, 1 or all"),
        ({"axes": {"acks": [True]}}, "producer property acks is true; allowed: 0, 1 or all"),
        (
            {"axes": {"enable.idempotence": ["maybe"]}},
            "producer property enable.idempotence is 'maybe'; allowed: true, false",
        ),
        (
            {"axes": {"fault": ["leader-crahs"]}},
            "unknown fault leader-crahs; did you mean leader-crash",
        ),
        (
            {"axes": {"replication.factor": [4]}},
            "replication.factor is 4; allowed: at most the number of nodes, which is 3",
        ),
        (
            {"axes": {"replication.factor": [0]}},
            "replication.factor is 0; allowed: a whole number from 1",
        ),
        (
            {"axes": {"partitions": [1.5]}},
            "partitions is 1.5; allowed: a whole number from 1 to 1000",
        ),
        (
            {"axes": {"fault.pause_s": [1], "fault": "leader-crash"}},
            "axis fault.pause_s: no fault of this experiment has a parameter pause_s",
        ),
        ({"producer": {"linger": 5}}, "unknown producer property linger; did you mean linger.ms?"),
        (
            {"producer": {"linger.ms": -1}},
            "producer property linger.ms is -1; allowed: 0 to 900000",
        ),
        (
            {"producer": {"partitioner": "nonsense"}},
            "producer property partitioner is 'nonsense'; the client reports: Invalid value",
        ),
        (
            {"producer": {"isolation.level": "read_committed"}},
            "unknown producer property isolation.level; it belongs to consumer",
        ),
        (
            {"topic": {"min.insync.replicas": 0}},
            "topic property min.insync.replicas is 0; allowed: a whole number of at least 1",
        ),
        (
            {"topic": {"cleanup.policy": "compcat"}},
            "topic property cleanup.policy is 'compcat'; allowed: any of compact, delete",
        ),
        (
            {"broker": {"unclean.leader.election.enable": "sometimes"}},
            "broker property unclean.leader.election.enable is 'sometimes'; allowed: true or false",
        ),
        (
            {"faults": {"leader-pause": {"pause": 3}}},
            "unknown key faults.leader-pause.pause; did you mean pause_s?",
        ),
        (
            {"faults": {"leader-pause": {"pause_s": 0}}},
            "faults.leader-pause.pause_s is 0; allowed: more than 0",
        ),
        ({"faults": {"pause": {}}}, "unknown fault pause"),
        (
            {
                "axes": {"fault": ["leader-pause"]},
                "faults": {"leader-pause": {"at_s": 9, "pause_s": 3}},
            },
            "fault leader-pause begins at 9 s and lasts until 12 s",
        ),
        ({"axes": {"workload.duration_s": [0]}}, "workload.duration_s is 0; allowed: more than 0"),
        (
            {"axes": {"workload.duration": [1]}},
            "unknown workload setting duration; did you mean duration_s?",
        ),
        (
            {"workload": {"rate_records_per_s": 0.1, "duration_s": 10, "producers": 2}},
            "the workload has 1 records; allowed: at least one per producer, so 2",
        ),
        (
            {"kafka_version": "4.2.x"},
            "invalid kafka.version: '4.2.x' (allowed: a released version from 3.9.0 on, such as",
        ),
        ({"repeats": 500}, "3 cells x 500 repeats are more than 1024 trials"),
        (
            {"repeats": 250, "controls": True},
            "3 cells and 2 controls x 250 repeats are more than 1024 trials",
        ),
        (
            {"axes": {"linger.ms": list(range(65)), "partitions": list(range(1, 65))}},
            "the axes span 4160 cells; allowed: at most 4096",
        ),
    ],
)
def test_a_wrong_experiment_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    """The line names the key, the value and what is allowed, or suggests a similar name."""
    with pytest.raises(ExperimentError) as raised:
        planned(**changes)

    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("acsk=1", "--set acsk: unknown axis acsk; did you mean acks?"),
        ("acks", "--set acks: write --set axis=value"),
        ("acks=", "--set acks=: write --set axis=value"),
        ("acks=[1", "--set acks=\\[1, line 1: expected"),
        ("fault=meteor", "--set fault: unknown fault meteor"),
        (
            "workload.rate_records_per_s=-5",
            "--set workload.rate_records_per_s is -5; allowed: more than 0",
        ),
        ("nodes=many", "--set nodes is 'many'; allowed: a whole number"),
    ],
)
def test_a_wrong_override_is_refused_in_one_line(override: str, message: str) -> None:
    """The line starts with the option, so it is clear that the file is not at fault."""
    with pytest.raises(ExperimentError, match=f"^{message}"):
        overridden(override)


def test_an_experiment_with_overrides_is_written_and_parsed_to_the_same_plan() -> None:
    """A sweep's own experiment.yaml gives the plan of the sweep that was run."""
    changed = apply_overrides(
        load_experiment("quick"),
        Overrides({"acks": (1,), "linger.ms": (0, 5)}, repeats=2, seed=7),
        RULES,
    )
    again = parse_experiment(parse_yaml(changed.to_yaml(), "experiment.yaml"), "experiment.yaml")

    assert plan(again, "x", RULES) == plan(changed, "x", RULES)


@pytest.mark.parametrize("name", [entry.name for entry in catalog_experiments()])
def test_every_catalogue_entry_plans_with_the_real_client(name: str) -> None:
    """The file has the name of its experiment, and librdkafka accepts at least one of its cells."""
    experiment = load_experiment(name)

    assert experiment.name == name
    assert plan(experiment, "x").trials


def test_an_axis_with_and_without_its_prefix_is_one_axis_too_many() -> None:
    """`acks` is an axis of every experiment, named or not."""
    data = {"name": "x", "title": "t", "question": "q"}
    for axes in (
        {"producer.acks": [0, 1], "acks": "all"},
        {"acks": "all", "producer.acks": [0, 1]},
        [{"producer.acks": [0]}, {"acks": 1}],
        {"producer.enable.idempotence": [True], "enable.idempotence": [False]},
    ):
        with pytest.raises(ExperimentError, match=r"^the axes .* and .* are the same: keep one"):
            plan(parse_experiment({**data, "axes": axes}, "x"), "x", RULES)
    alone = parse_experiment({**data, "axes": {"producer.acks": [0, 1]}, "controls": False}, "x")
    made = plan(alone, "x", RULES)
    assert [trial.producer["acks"] for trial in made.trials] in (["0", "1"], ["1", "0"])
    assert all("acks" not in trial.cell for trial in made.trials)


def test_the_quick_sweep_has_the_size_that_the_readme_states() -> None:
    """It has twenty cells, an added control, and ten cells that librdkafka refuses.

    The refused ones have idempotence without acks=all.
    """
    made = plan(load_experiment("quick"), "x")

    assert (len(made.trials), len(made.refused), sum(trial.added for trial in made.trials)) == (
        21,
        10,
        1,
    )
    assert {cell.reason for cell in made.refused} == {
        "`acks` must be set to `all` when `enable.idempotence` is true"
    }


def test_the_documented_example_is_an_experiment() -> None:
    """The example in the documentation can be copied and run."""
    block = (DOCS / "experiments.md").read_text().split("```yaml\n")[1].split("```")[0]
    example = parse_experiment(parse_yaml(block, "docs"), "docs")

    assert sum(not trial.added for trial in plan(example, "x").trials) == 4 * example.repeats


@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_is_documented_with_its_parameters(kind: str) -> None:
    """The table of the documentation has each fault with the default of every parameter."""
    rows = [
        line
        for line in (DOCS / "faults.md").read_text().splitlines()
        if line.startswith("| `") and f"`{kind}`" in line.split("|")[1]
    ]
    parameters = {} if kind == "none" else FAULTS[kind].parameters.model_fields

    def shown(default: object) -> str:
        return f"{default:g}" if isinstance(default, float) else str(default)

    missing = [
        name
        for name, field in parameters.items()
        if not re.search(rf"`{name}` \({re.escape(shown(field.default))}[);]", rows[0])
    ]
    assert missing == []
