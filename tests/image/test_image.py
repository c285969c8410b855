"""The images of `make image`, run by podman as a user of them would: without rights and network.

A machine on which podman needs other settings has them in CONTAINERS_CONF; `containers.conf` in
this folder is one.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from support.needed_programs import skip_without

from ackbench.infra.image.build import image_name
from ackbench.infra.machine.home import REPOSITORY
from ackbench.infra.process.waiting import wait_until

pytestmark = [pytest.mark.further, pytest.mark.timeout(600)]
USER: Final = 10001
HOME: Final = "/var/lib/ackbench/home"
UNPRIVILEGED: Final = (
    *("--pull", "never", "--rm", "--network", "none", "--read-only"),
    *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
)
ONE_CELL: Final = (
    *("run", "quick", "--acks", "all", "--enable.idempotence", "true", "--partitions", "1"),
    *("--replication-factor", "3", "--fault", "leader-crash-behind"),
    *("--broker.session.timeout.ms", "1500", "--no-controls", "--fail-on", "violated"),
)

STEPPED: Final = """\
name: in-containers
title: In containers
question: Does each step run in a container of its own?
axes: {acks: all, enable.idempotence: true, replication.factor: 1, partitions: 1, fault: none}
workload: {rate_records_per_s: 200, record_size_bytes: 100, duration_s: 3}
controls: false
repeats: 1
"""


@dataclass(frozen=True)
class Image:
    """An image, and how it is run."""

    name: str

    def run(
        self, *arguments: str, options: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of ackbench in a container without rights, network and traces."""
        command = ("podman", "run", *UNPRIVILEGED, *options, self.name, *arguments)
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def inspect(self) -> dict[str, Any]:
        """Return what podman knows of the image."""
        found: list[dict[str, Any]] = json.loads(podman("image", "inspect", self.name))
        return found[0]


def podman(*arguments: str) -> str:
    """Return the output of a command of podman."""
    return subprocess.run(["podman", *arguments], check=True, capture_output=True, text=True).stdout


def image(stage: str) -> Image:
    """Return the image of a stage; skip the test where it was not built."""
    skip_without("podman")
    name = image_name(stage)
    if subprocess.run(["podman", "image", "exists", name], check=False).returncode != 0:
        pytest.skip(f"{name} was not built: make image")
    return Image(name)


@pytest.fixture
def check_image() -> Image:
    """Return the small image."""
    return image("check")


@pytest.fixture
def run_image() -> Image:
    """Return the image with everything."""
    return image("run")


@pytest.fixture
def volume() -> Iterator[str]:
    """Yield a new volume, and remove it."""
    name = f"ackbench-test-{time.time_ns()}"
    podman("volume", "create", name)
    yield name
    podman("volume", "rm", name)


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Compare the processes of the image's user, and podman's containers, with those before."""
    skip_without("podman")
    before = (processes(), podman("ps", "--all", "--quiet"))
    yield
    assert (processes(), podman("ps", "--all", "--quiet")) == before


def processes() -> str:
    """Return the processes of the image's user, which no other program of a machine has."""
    command = ["ps", "-ww", "-o", "pid,args", "--no-headers", "-u", str(USER)]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("settings", "exit_code"), [("acks=1", 3), ("acks=all\nenable.idempotence=true", 0)]
)
def test_files_of_the_current_folder_are_checked(
    check_image: Image, tmp_path: Path, settings: str, exit_code: int
) -> None:
    """As a job calls it: the folder is mounted, and cannot be written."""
    tmp_path.chmod(0o755)
    texts = {"producer.properties": settings, "topic.properties": "min.insync.replicas=2"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o644)
    limits = ("--replication-factor", "3", "--fail-on", "no-acked-loss:leader-crash")
    mounted = ("--volume", f"{tmp_path}:/work:ro")
    ran = check_image.run("check", *texts, *limits, options=mounted)
    assert (ran.returncode, "no-acked-loss is not guaranteed" in ran.stderr) == (
        exit_code,
        exit_code == 3,
    )


def test_each_step_of_a_sweep_runs_in_a_container_of_its_own(
    run_image: Image, volume: str, tmp_path: Path
) -> None:
    """As a scheduler calls it that runs containers: JSON on standard output goes to the next."""
    tmp_path.chmod(0o755)
    (tmp_path / "one.yaml").write_text(STEPPED)
    (tmp_path / "one.yaml").chmod(0o644)
    mounted = ("--volume", f"{volume}:/var/lib/ackbench", "--volume", f"{tmp_path}:/work:ro")

    def step(*arguments: str) -> Any:
        ran = run_image.run("step", *arguments, options=mounted)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout or "null")

    sweep = step("plan", "one.yaml")["sweep"]
    step("provision", sweep)
    for planned in step("list_trials", sweep):
        assert step("trial", sweep, "--planned", json.dumps(planned))["ran"] in planned["trials"]
    for name in ("destroy", "measure", "report", "track", "verify", "alert"):
        step(name, sweep)
    (cell,) = step("finish", sweep)["cells"]
    verdicts = {one["guarantee"]: one["verdict"] for one in cell["judgements"]}
    assert verdicts["no-acked-loss"] == "HELD"


def test_a_sweep_runs_without_network_rights_and_set_up(run_image: Image, volume: str) -> None:
    """In a home that is a volume, whose results a second container reads."""
    home = ("--volume", f"{volume}:/var/lib/ackbench")
    ran = run_image.run(*ONE_CELL, options=home)
    assert (ran.returncode, "setting it up" in ran.stdout + ran.stderr) == (0, False), ran.stderr
    assert "ackbench: gate: passed" in ran.stderr.splitlines()

    shown = run_image.run("show", "--json", options=home)
    (trial,) = json.loads(shown.stdout)["trials"]
    assert trial["status"] == "sealed"

    judged = run_image.run("report", "quick", "--fail-on", "unknown", options=home)
    assert judged.returncode in {0, 3}


def test_a_stopped_container_ends_its_brokers_and_another_one_resumes(
    run_image: Image, volume: str
) -> None:
    """`podman stop` sends SIGTERM to the container's first process."""
    home = ("--volume", f"{volume}:/var/lib/ackbench")
    name = f"{volume}-stopped"
    command = ("podman", "run", "--name", name, *UNPRIVILEGED, *home, run_image.name, *ONE_CELL)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        wait_until(
            lambda: "/bin/java" in processes(),
            awaiting="the brokers of the container",
            timeout_s=90,
        )
        podman("stop", "--time", "60", name)
        _, errors = run.communicate(timeout=60)
    assert (run.returncode, "ackbench run --resume" in errors) == (143, True), errors

    (sweep,) = set(re.findall(r"quick-\d{8}T\d{6}-\w{4}", errors))
    resumed = run_image.run("run", "--resume", sweep, options=home)
    assert resumed.returncode == 0, resumed.stderr


def test_a_home_of_another_user_is_refused_in_one_line(run_image: Image, tmp_path: Path) -> None:
    """A folder of the machine that is mounted belongs to who made it."""
    (tmp_path / "home").mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    ran = run_image.run("list", options=("--volume", f"{tmp_path}:/var/lib/ackbench"))
    assert (ran.returncode, ran.stderr) == (0, "")

    refused = run_image.run("setup", options=("--volume", f"{tmp_path}:/var/lib/ackbench"))
    (line,) = refused.stderr.splitlines()
    assert refused.returncode == 2
    assert f"the home folder {HOME} belongs to" in line


def test_the_image_is_not_larger_than_the_document_says(
    check_image: Image, run_image: Image
) -> None:
    """By more than a tenth: packages grow."""
    text = (REPOSITORY / "docs" / "image.md").read_text()
    documented = dict(
        re.findall(r"^\| `localhost/ackbench:[\d.]+(-check|)` \| ([\d,]+) MB", text, re.MULTILINE)
    )
    for suffix, found in (("-check", check_image), ("", run_image)):
        size_mb = found.inspect()["Size"] / 1e6
        assert size_mb < 1.1 * int(documented[suffix].replace(",", ""))


def test_labels_say_which_version_it_is(run_image: Image) -> None:
    """By the names of the OCI image specification; the revision is a commit's."""
    labels = run_image.inspect()["Labels"]
    named = {name.removeprefix("org.opencontainers.image."): text for name, text in labels.items()}
    assert (named["title"], named["version"]) == ("ackbench", run_image.name.rpartition(":")[2])
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", named["revision"])


def test_the_image_has_an_ordinary_user_and_a_volume(run_image: Image) -> None:
    """The arguments of a container that is run without options."""
    config = run_image.inspect()["Config"]
    assert config["User"] == f"{USER}:{USER}"
    assert list(config["Volumes"]) == ["/var/lib/ackbench"]
    assert config["Entrypoint"][-1] == "ackbench"
