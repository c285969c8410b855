"""Packages that an installation does without: the smallest judges settings, `[read]` reads sweeps.

Airflow, Spark, MLflow, Kafka's clients, Java and Numba are hidden from a process of its own; from
the smallest installation also what reads tables and draws pages.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest
from support.builders.records import a_spec
from support.builders.result_tables import loss_counts
from support.builders.sweep_folders import measured_sweep_folder

from ackbench.experiments.commands.setup import SetUp
from ackbench.experiments.trial.clients.librdkafka.properties import COPY, table_rows
from ackbench.infra.machine.home import (
    INSTALL,
    INSTALL_CLUSTER,
    INSTALL_READ,
    REPOSITORY,
    SET_UP_FILE,
    Home,
)
from ackbench.infra.start import CLUSTER_PACKAGES, READ_PACKAGES, RUN_PACKAGES

NOT_COMPARED: Final = (
    f"warning: the sweeps of {{home}} are not compared: {INSTALL_READ} installs what reads them"
)
HIDING: Final = f"""
import os
import sys
from importlib.abc import MetaPathFinder

HIDDEN = {{*{(*RUN_PACKAGES, "llvmlite", "py4j", "sqlalchemy")!r}, *os.environ["HIDDEN"].split()}}

class Hidden(MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {{fullname!r}}", name=fullname)

sys.meta_path.insert(0, Hidden())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: (
    None if name.partition(".")[0] in HIDDEN else found(name, package)
)
"""
PROGRAM: Final = f"""{HIDING}
from ackbench.experiments.commands.cli import main
main()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Return a home with two measured sweeps."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.ensure_writable()
    for name in ("planted", "other"):
        specs = [a_spec(trial_id=f"{n:03}-abcdef", repeat=n, order=n, seed=n) for n in (0, 1)]
        measured_sweep_folder(home, name, specs, lambda _: loss_counts(100, 7))
    return home


def light(
    home: Home, *arguments: str, without: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the command line where only the light installation's packages can be imported."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, "ACKBENCH_HOME": str(home.root), "HIDDEN": " ".join(without)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("use", ["import ackbench; ackbench.load", "from ackbench import Sweep"])
def test_the_api_says_what_installs_what_reads_sweeps(use: str) -> None:
    """In the error's own line; its type stays that of a missing package."""
    ran = subprocess.run(
        [sys.executable, "-c", f"{HIDING}\n{use}"],
        env={**os.environ, "HIDDEN": " ".join(READ_PACKAGES)},
        capture_output=True,
        text=True,
        check=False,
    )
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: ackbench.")
    assert " needs the package " in last
    assert last.endswith(f"{INSTALL_READ} installs it")


@pytest.mark.further("show planted", "compare planted other", "matrix planted")
@pytest.mark.parametrize(
    "command",
    [
        ("show", "planted"),
        ("show", "planted", "--json"),
        ("compare", "planted", "other"),
        ("matrix", "planted"),
        ("report", "planted"),
        ("check", "--replication-factor", "3"),
    ],
    ids=" ".join,
)
def test_what_reads_needs_nothing_that_runs(home: Home, command: tuple[str, ...]) -> None:
    """Each command that a light client has."""
    ran = light(home, *command)

    assert (ran.returncode, ran.stderr) == (0, ran.stderr)
    assert "Traceback" not in ran.stderr
    assert ran.stdout


@pytest.mark.further("list", "faults requests", "schema experiment")
@pytest.mark.parametrize(
    "command",
    [
        ("check", "--replication-factor", "3"),
        ("why", "acks=1"),
        ("list",),
        ("explain", "faults-requests"),
        ("faults", "requests"),
        ("schema", "experiment"),
    ],
    ids=" ".join,
)
def test_what_judges_settings_needs_nothing_that_reads_sweeps(
    home: Home, command: tuple[str, ...]
) -> None:
    """With sweeps in the home, which it names as not compared where it would look at them."""
    ran = light(home, *command, without=READ_PACKAGES)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
    assert ran.stderr in {"", f"{NOT_COMPARED.format(home=home.root)}\n"}


def test_a_job_of_ci_gates_settings_with_the_smallest_installation(
    home: Home, tmp_path: Path
) -> None:
    """With a policy, a file for its page, and a changed file: as `docs/ci` has it."""
    (tmp_path / "producer.properties").write_text("acks=1\n")
    (tmp_path / "policy.yaml").write_text("require: {producer acks: all}\n")
    files = {name: str(tmp_path / name) for name in ("policy.yaml", "check.xml")}
    gate = ("--fail-on", "no-acked-loss:leader-crash", "--policy", files["policy.yaml"])
    options = (*gate, "--fix", "--junit", files["check.xml"])
    ran = light(
        home, "check", str(tmp_path / "producer.properties"), *options, without=READ_PACKAGES
    )

    assert ran.returncode == 3, ran.stderr
    assert "testsuite" in (tmp_path / "check.xml").read_text()
    assert (tmp_path / "producer.fixed.properties").is_file()


@pytest.mark.parametrize(
    ("command", "install"),
    [
        (("show", "planted"), INSTALL_READ),
        (("cluster",), INSTALL_CLUSTER),
        (("run", "quick"), INSTALL),
        (("env",), INSTALL),
    ],
    ids=["show", "cluster", "run", "env"],
)
def test_the_smallest_installation_names_what_a_command_needs_in_all(
    home: Home, command: tuple[str, ...], install: str
) -> None:
    """Not the package that it misses first: the next one would be missing then."""
    ran = light(home, *command, without=READ_PACKAGES)

    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert f"{install} installs it" in ran.stderr


def test_a_sweep_whose_trials_agree_is_shown_without_pandas_and_scipy(home: Home) -> None:
    """Both take as long to load as all the rest; Arrow loads pandas where it finds it."""
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ackbench", "show", "planted"],
        env={**os.environ, "ACKBENCH_HOME": str(home.root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not [line for line in loaded.stderr.splitlines() if line.endswith((" pandas", " scipy"))]


@pytest.mark.further("setup")
@pytest.mark.parametrize(
    "command", [("run", "quick"), ("setup",), ("check", "--bootstrap", "127.0.0.1:1")], ids=" ".join
)
def test_what_runs_says_in_one_line_what_is_missing(home: Home, command: tuple[str, ...]) -> None:
    """With the remedy."""
    ran = light(home, *command)

    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert re.search(r"installs? (it|what is missing)", ran.stderr)


@pytest.mark.further
def test_a_home_that_a_full_installation_has_set_up_does_not_make_runs_possible(home: Home) -> None:
    """A sweep was planned, and Airflow's absence was the failure of its first step."""
    record = home.root / SET_UP_FILE
    record.write_text(SetUp.of_this_process().model_dump_json())
    before = list(home.sweeps.iterdir())
    ran = light(home, "run", "quick")
    record.unlink()

    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert "reads sweeps but runs none" in ran.stderr
    assert list(home.sweeps.iterdir()) == before


def test_pruning_deletes_no_sweep_whose_runs_in_mlflow_would_stay(home: Home) -> None:
    """It deleted the sweeps first, and then ended for lack of MLflow."""
    home.mlflow.mkdir(exist_ok=True)
    before = sorted(home.sweeps.iterdir())
    ran = light(home, "prune", "--keep", "1", "--apply")
    assert ran.returncode == 2
    assert ran.stderr.startswith("ackbench: this installation has no ")
    assert sorted(home.sweeps.iterdir()) == before


@pytest.mark.further
def test_files_with_librdkafkas_names_are_checked_without_it(home: Home, tmp_path: Path) -> None:
    """By the copy of its table of properties."""
    path = tmp_path / "producer.properties"
    path.write_text("request.required.acks=1\nmessage.send.max.retries=3\n")
    ran = light(home, "check", "--producer", str(path), "--replication-factor", "3", "--json")

    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["settings"]["client"] == "librdkafka"
    path.write_text("request.required.aks=1\n")
    assert light(home, "check", "--producer", str(path), "--strict").returncode == 2


def test_the_copy_of_librdkafkas_properties_is_that_of_the_library() -> None:
    """After an upgrade: `python -m ackbench.experiments.trial.clients.librdkafka.properties`."""
    assert json.loads(COPY.read_text()) == table_rows()


def test_an_installation_has_what_the_smaller_ones_have_and_nothing_of_the_larger_ones() -> None:
    """All of them together are in the lock file."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    base, read, cluster, run = (
        {re.split(r"[<>=~!; ]", one)[0] for one in requirements}
        for requirements in (
            project["dependencies"],
            *(extras[name] for name in ("read", "cluster", "run")),
        )
    )
    locked = set(
        re.findall(
            r"^([a-z0-9._-]+)==",
            (REPOSITORY / "requirements" / "lock.txt").read_text(),
            re.MULTILINE,
        )
    )
    smaller = {"ackbench[read]", "ackbench[cluster]"}
    assert "ackbench[read]" in cluster
    assert "ackbench[cluster]" in run
    assert not base & (read | cluster | run)
    assert {name.replace("-", "_") for name in read} == {*READ_PACKAGES}
    assert {name.replace("-", "_") for name in cluster - smaller} == {*CLUSTER_PACKAGES}
    assert base | read | cluster | run - smaller <= locked | smaller
