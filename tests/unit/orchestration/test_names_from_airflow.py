"""What tasks hand on is data of a stranger: Airflow's users may change it, and clear a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.fakes.infrastructure import FakeInfrastructure

from ackbench.experiments.ledger.location import open_location
from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.orchestration import batches, step_context, steps
from ackbench.experiments.orchestration.sweep_links import asset_extra, link_of, stored_page
from ackbench.experiments.orchestration.task_hosts import task_hosts
from ackbench.experiments.sweep.lookup import is_sweep_id, new_sweep_id
from ackbench.experiments.sweep.published import keep_store, publish_plan
from ackbench.experiments.sweep.time_limits import batch_limit_s, results_limit_s, trial_limit_s
from ackbench.infra.errors import InputError
from ackbench.infra.machine.home import Home

SWEEP = "planted-20260101T000000-abcd"
NEXT = {"label": "acks=1", "trials": []}
BATCH = {"label": "acks=1", "trials": ["000-abcdef"]}


@dataclass
class Machine:
    """A machine whose home has one sweep; another one is in a folder that is no home of it."""

    world: FakeInfrastructure
    outside: Path
    """A folder that its owner did not name to ackbench, with a store in it."""

    def names(self) -> Mapping[str, object]:
        """Return the names of the outside sweep and others, by what they are."""
        home, sweep = self.world.home, self.outside / "sweeps" / SWEEP
        return {
            "path": str(sweep),
            "path relative to the home": f"../../outside/sweeps/{SWEEP}",
            "path below the home": f"{SWEEP}/trials",
            "parent": "..",
            "home": str(home.sweeps / SWEEP),
            "URI of a folder": sweep.as_uri(),
            "URI of another store": (self.outside / "store" / SWEEP).as_uri(),
            "URI of a machine": f"s3://bucket/{SWEEP}?endpoint_override=http://169.254.169.254",
            "URI that is none": f"s3://[/{SWEEP}",
            "more lines": f"{SWEEP}\n",
            "template": "{{ var.value.secret }}",
            "nothing": "",
            "number": 7,
            "list": [SWEEP],
            "mapping": {"id": SWEEP},
        }

    def files(self) -> Mapping[Path, bytes]:
        """Return all files of the outside folder and of the home."""
        folders = (self.outside, self.world.home.root)
        return {
            path: path.read_bytes()
            for folder in folders
            for path in folder.rglob("*")
            if path.is_file()
        }


@pytest.fixture(params=["one machine", "several hosts"])
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    """Return a machine, with fakes of clusters and trials."""
    world = FakeInfrastructure(Home(tmp_path / "home"))
    world.install(monkeypatch.setattr)
    world.sweep(1)
    made = Machine(world, tmp_path / "outside")
    planted = FakeInfrastructure(Home(made.outside)).sweep(1)
    store = open_location((made.outside / "store").as_uri())
    keep_store(planted, store, several_hosts=True)
    publish_plan(planted, store.at(SWEEP))
    monkeypatch.setattr(step_context, "RUN_STATE", step_context.RunState())
    monkeypatch.setattr(batches, "_prepare", lambda *_: None)
    monkeypatch.delenv("ACKBENCH_ONE_MACHINE", raising=False)
    monkeypatch.setenv("ACKBENCH_HOME", str(world.home.root))
    monkeypatch.setenv("ACKBENCH_STORE", str(tmp_path / "own-store"))
    if request.param == "one machine":
        monkeypatch.setenv("ACKBENCH_ONE_MACHINE", "1")
    return made


TASKS: Mapping[str, Callable[[Any], object]] = {
    "list_trials": batches.list_batches,
    "provision": steps.provision,
    "trial": lambda named: batches.run_planned(named, NEXT, lambda _: None),
    "trial of a batch": lambda named: batches.run_planned(named, BATCH, lambda _: None),
    "measure": steps.measure,
    "report": steps.report,
    "track": steps.track,
    "verify": steps.verify,
    "destroy": steps.destroy,
    "event": asset_extra,
}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_task_uses_no_folder_and_no_store_that_only_airflow_names(
    machine: Machine, task: Callable[[Any], object]
) -> None:
    """One line for each name; nothing is started, and no file is made or changed."""
    if task is steps.provision and not task_hosts().share_home:
        pytest.skip("it does nothing on several hosts")
    before = machine.files()
    for what, named in machine.names().items():
        with pytest.raises(UnknownName) as refused:
            task(named)
        assert "a task was given" in str(refused.value), what
        assert "\n" not in str(refused.value), what
    assert machine.world.steps == []
    assert machine.files() == before


def test_no_link_leads_to_what_only_airflow_names(machine: Machine) -> None:
    """The store of the outside sweep would be shown."""
    for named in machine.names().values():
        assert link_of(named, stored_page) == ""


def test_a_sweep_of_this_home_is_named_by_its_id(machine: Machine) -> None:
    """As the first task returns it."""
    assert step_context.sweep_named(SWEEP).root == machine.world.home.sweeps / SWEEP


def test_a_published_sweep_is_named_by_its_uri_in_the_store_of_the_host(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or in the store where this home has published it."""
    uri = open_location((machine.outside / "store").as_uri()).at(SWEEP).uri
    monkeypatch.setenv("ACKBENCH_STORE", str(machine.outside / "store"))
    assert step_context.uri_of_several(uri) == uri
    monkeypatch.delenv("ACKBENCH_STORE")
    with pytest.raises(UnknownName):
        step_context.uri_of_several(uri)
    sweep = step_context.sweep_named(SWEEP)
    keep_store(sweep, open_location((machine.outside / "store").as_uri()))
    assert step_context.uri_of_several(uri) == uri


def test_a_limit_is_read_from_the_plan_alone_and_a_strangers_name_has_none(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On several hosts each task would copy the sweep twice; a host may take any batch."""
    before = machine.files()
    for named in machine.names().values():
        assert steps.limit_s("trial", named) is None
    plan = step_context.sweep_named(SWEEP).plan()
    assert steps.limit_s("measure", SWEEP) == results_limit_s(plan)
    if task_hosts().share_home:
        assert steps.limit_s("trial", SWEEP) == trial_limit_s(plan)
    else:
        monkeypatch.setenv("ACKBENCH_STORE", str(machine.outside / "store"))
        uri = open_location((machine.outside / "store").as_uri()).at(SWEEP).uri
        assert steps.limit_s("trial", uri) == batch_limit_s(plan)
    assert machine.files() == before


@pytest.mark.parametrize(
    "planned",
    [
        {"label": "x", "trials": ["../../x"]},
        {"label": "x", "trials": ["001-abcdef"]},
        {"label": "x", "trials": [["000-abcdef"]]},
        {"label": "x", "trials": "000-abcdef"},
        {"label": "x", "planted": 1},
        {},
        [],
        None,
        "000-abcdef",
    ],
)
def test_a_task_runs_only_trials_of_the_plan(machine: Machine, planned: Any) -> None:
    """One line, before a cluster is started."""
    with pytest.raises(InputError, match="a task was given") as refused:
        batches.run_planned(SWEEP, planned, lambda _: None)
    assert "\n" not in str(refused.value)
    assert machine.world.steps == []


def test_the_id_of_every_new_sweep_is_an_id() -> None:
    """Whatever its experiment is called."""
    for experiment in ("quick", "a", "7-days", "a" * 60):
        assert is_sweep_id(new_sweep_id(experiment))
