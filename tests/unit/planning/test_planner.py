"""Experiment -> cells -> trials: every name resolved, every cell planned or refused, nothing left to chance."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.fakes.client_rules import RULES

from experiments.errors import ExperimentError
from experiments.faults import FAULTS
from experiments.ledger.record import Cell
from experiments.planning.experiment import Experiment, experiment_of
from experiments.planning.overrides import Overrides, parse_override
from experiments.planning.planner import catalogue, load, override, plan
from experiments.planning.yaml_reader import parse
from experiments.sweep.cell_names import cell_label
from experiments.sweep.plan import Plan

EXPERIMENTS = Path(__file__).parents[3] / "docs" / "experiments.md"


def experiment(**changes: Any) -> Experiment:
    """Return a small experiment without controls (`test_spec_controls` is about those) with a few keys changed; `kafka.version` is written `kafka_version`."""
    small: dict[str, Any] = {
        "name": "small",
        "title": "t",
        "question": "q",
        "workload": {"duration_s": 10},
        "controls": False,
    }
    small["axes"] = {"acks": [0, 1, "all"], "fault": "none"}
    return experiment_of(
        small | {key.replace("_", "."): value for key, value in changes.items()}, "small.yaml"
    )


def planned(**changes: Any) -> Plan:
    """Return the plan of a small experiment with a few keys changed."""
    return plan(experiment(**changes), "small-1", RULES)


def overridden(*overrides: str, **changes: Any) -> Plan:
    """Return the plan of a small experiment as the command line wishes it."""
    return plan(
        override(experiment(**changes), Overrides(dict(map(parse_override, overrides))), RULES),
        "small-1",
        RULES,
    )


def test_a_cross_product_gives_every_cell_once() -> None:
    """Three acks, idempotence off and on, two partition counts: twelve cells, four of them refused."""
    made = planned(
        axes={"acks": [0, 1, "all"], "enable.idempotence": [False, True], "partitions": [1, 6]}
    )

    assert (len(made.trials), len(made.refused)) == (8, 4)


def test_a_cell_that_no_client_accepts_is_listed_once_with_the_clients_words() -> None:
    """A refused cell does not count its repeats, and is never dropped."""
    made = planned(axes={"acks": [1, "all"], "enable.idempotence": True}, repeats=3)

    assert [(cell.cell["acks"], cell.reason) for cell in made.refused] == [
        (1, "`acks` must be set to `all`")
    ]
    assert len(made.trials) == 3


def test_cells_that_a_union_names_twice_are_one() -> None:
    """`-1` and `all` are the same acks, so the second cross product adds one cell only."""
    made = planned(axes=[{"acks": [0, "all"]}, {"acks": [-1, 1]}])

    assert sorted(str(trial.cell["acks"]) for trial in made.trials) == ["0", "1", "all"]


def test_every_cell_says_the_core_axes() -> None:
    """What the experiment does not name stands in the cell all the same."""
    cell = planned(axes={"partitions": 2}).trials[0].cell

    assert cell == {
        "partitions": 2,
        "acks": "all",
        "enable.idempotence": False,
        "replication.factor": 3,
        "fault": "none",
    }


def test_an_axis_that_one_cross_product_lacks_has_the_sections_value_there() -> None:
    """A union's cells all have the same keys."""
    made = planned(axes=[{"linger.ms": [0, 50]}, {"acks": 1}], producer={"linger.ms": 5})

    assert sorted(
        (str(trial.cell["acks"]), trial.cell["linger.ms"], trial.producer["linger.ms"])
        for trial in made.trials
    ) == [
        ("1", 5, "5"),
        ("all", 0, "0"),
        ("all", 50, "50"),
    ]


@pytest.mark.parametrize(("replication_factor", "least"), [(1, "1"), (2, "2"), (3, "2")])
def test_majority_is_the_smallest_majority_of_the_replication_factor(
    replication_factor: int, least: str
) -> None:
    """Half and one, never more than there are replicas."""
    made = planned(
        axes={"replication.factor": replication_factor}, topic={"min.insync.replicas": "majority"}
    )

    assert made.trials[0].topic["min.insync.replicas"] == least


def test_the_same_repeat_of_every_cell_has_the_same_seed() -> None:
    """Cells are compared in pairs: what the seed decides is equal between them, and differs between repeats."""
    made = planned(repeats=2)
    seeds = {(trial.repeat, trial.seed) for trial in made.trials}

    assert len(made.trials) == 6
    assert len(seeds) == len({seed for _, seed in seeds}) == 2


def test_the_order_is_the_seeds() -> None:
    """The same seed gives the same order, another seed another, and both hold every trial."""
    first, again, other = (planned(seed=seed, repeats=10) for seed in (1, 1, 2))
    cells = [
        [(str(trial.cell["acks"]), trial.repeat) for trial in made.trials]
        for made in (first, again, other)
    ]

    assert cells[0] == cells[1] != cells[2]
    assert sorted(cells[0]) == sorted(cells[2])


def test_trials_are_grouped_by_the_cluster_they_need() -> None:
    """A broker property as an axis costs one cluster a value, however the trials are shuffled."""
    made = planned(
        axes={"acks": [0, 1, "all"], "broker.session.timeout.ms": [4000, 9000]}, repeats=4
    )
    clusters = [trial.cluster.broker["broker.session.timeout.ms"] for trial in made.trials]

    assert clusters == ["4000"] * 12 + ["9000"] * 12


def test_trial_ids_are_the_order_and_a_digest() -> None:
    """They are unique, sort as they run, and are fit for a topic's and a file's name."""
    ids = [trial.trial_id for trial in planned(repeats=5).trials]

    assert ids == sorted(set(ids))
    assert all(len(trial_id) == 10 and trial_id.replace("-", "").isalnum() for trial_id in ids)


def test_settings_are_text_as_kafka_wants_it() -> None:
    """Truth values, whole numbers and what YAML made a float all become Kafka's spelling."""
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
    ) == (
        "true",
        "10000",
        "true",
        "0.5",
    )


def test_a_second_name_of_a_property_is_the_same_property() -> None:
    """`request.required.acks` is `acks`, and is planned and shown as that."""
    made = overridden("request.required.acks=1")

    assert [trial.producer["acks"] for trial in made.trials] == ["1"]


def test_a_rack_is_the_consumers_without_a_prefix_too() -> None:
    """The producer would take it, and nothing would be fetched from another broker."""
    made = planned(axes={"acks": 1, "fault": "none", "client.rack": "rack-2"})

    assert [
        (trial.consumer.get("client.rack"), "client.rack" in trial.producer)
        for trial in made.trials
    ] == [("rack-2", False)]


def test_a_faults_parameter_can_be_an_axis() -> None:
    """It counts where the fault has it; where it has not, the cells fall together."""
    made = planned(
        axes={"acks": 1, "fault": ["none", "leader-pause"], "fault.pause_s": [1, 2]},
        producer={"socket.timeout.ms": 500},
    )

    assert sorted(
        (trial.fault.kind, str(trial.fault.parameters.get("pause_s"))) for trial in made.trials
    ) == [
        ("leader-pause", "1.0"),
        ("leader-pause", "2.0"),
        ("none", "None"),
    ]


def test_a_single_wish_for_no_axis_holds_for_all_cells() -> None:
    """It changes the workload, and no cell grows a key by it."""
    made = overridden("workload.duration_s=3")

    assert {trial.workload.duration_s for trial in made.trials} == {3}
    assert "workload.duration_s" not in made.trials[0].cell


def test_several_wishes_become_an_axis() -> None:
    """Each value has its cells."""
    made = overridden("linger.ms=0,50", "acks=all")

    assert sorted(trial.producer["linger.ms"] for trial in made.trials) == ["0", "50"]
    assert {trial.cell["linger.ms"] for trial in made.trials} == {0, 50}


def test_a_cells_label_is_short() -> None:
    """The core axes come first, the others as they are named."""
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
    ("changes", "words"),
    [
        ({"axes": {"acsk": [0]}}, "unknown axis acsk; did you mean acks?"),
        (
            {"axes": {"compression.type": ["lz4"]}},
            "ambiguous axis compression.type: write producer.compression.type or topic.compression.type",
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
            "producer property partitioner is 'nonsense'; the client says: Invalid value",
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
            "fault leader-pause begins at 9 s and is healed at 12 s",
        ),
        ({"axes": {"workload.duration_s": [0]}}, "workload.duration_s is 0; allowed: more than 0"),
        (
            {"axes": {"workload.duration": [1]}},
            "unknown workload setting duration; did you mean duration_s?",
        ),
        (
            {"workload": {"rate_records_per_s": 0.1, "duration_s": 10, "producers": 2}},
            "workload holds 1 records; allowed: one a producer at least, so 2",
        ),
        (
            {"kafka_version": "4.2.9"},
            "kafka.version is '4.2.9'; allowed: 3.9.2, 4.0.2, 4.1.2, 4.2.1, 4.3.1",
        ),
        ({"repeats": 500}, "3 cells x 500 repeats are more than 1024 trials"),
        (
            {"repeats": 250, "controls": True},
            "3 cells and 2 controls x 250 repeats are more than 1024 trials",
        ),
        (
            {"axes": {"linger.ms": list(range(65)), "partitions": list(range(1, 65))}},
            "the axes span 4160 cells; allowed: 4096 at most",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes: dict[str, Any], words: str) -> None:
    """The line names key, value and what is allowed, or the nearest name that there is."""
    with pytest.raises(ExperimentError) as raised:
        planned(**changes)

    assert str(raised.value).startswith(words)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("wish", "words"),
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
def test_a_wrong_wish_is_refused_by_its_own_name(wish: str, words: str) -> None:
    """The line says that the command line is wrong, not the file."""
    with pytest.raises(ExperimentError, match=f"^{words}"):
        overridden(wish)


def test_an_experiment_with_wishes_reads_back_and_plans_the_same() -> None:
    """A sweep's own experiment.yaml asks for exactly the sweep that was run."""
    wished = override(
        load("quick"), Overrides({"acks": (1,), "linger.ms": (0, 5)}, repeats=2, seed=7), RULES
    )
    again = experiment_of(parse(wished.to_yaml(), "experiment.yaml"), "experiment.yaml")

    assert plan(again, "x", RULES) == plan(wished, "x", RULES)


@pytest.mark.parametrize("name", [entry.name for entry in catalogue()])
def test_every_catalogue_entry_plans_with_the_real_client(name: str) -> None:
    """Its file is called what it is called, and librdkafka takes at least one cell of it."""
    experiment = load(name)

    assert experiment.name == name
    assert plan(experiment, "x").trials


def test_the_quick_sweep_is_the_one_of_the_readme() -> None:
    """Twenty cells and a control without a fault, and ten cells that librdkafka refuses because idempotence wants acks=all."""
    made = plan(load("quick"), "x")

    assert (len(made.trials), len(made.refused), sum(trial.added for trial in made.trials)) == (
        21,
        10,
        1,
    )
    assert {cell.reason for cell in made.refused} == {
        "`acks` must be set to `all` when `enable.idempotence` is true"
    }


def test_the_documented_example_is_an_experiment() -> None:
    """What the documentation shows can be copied and run."""
    block = EXPERIMENTS.read_text().split("```yaml\n")[1].split("```")[0]
    example = experiment_of(parse(block, "docs"), "docs")

    assert sum(not trial.added for trial in plan(example, "x").trials) == 4 * example.repeats


@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_is_documented_with_its_parameters(kind: str) -> None:
    """The table names each with every parameter's default."""
    rows = [
        line
        for line in EXPERIMENTS.read_text().splitlines()
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
