"""The trigger form's fields become a request, or are refused with one line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ackbench.experiments.messages.errors import ExperimentError, UnknownName
from ackbench.experiments.orchestration.request import (
    EXPERIMENTS_VARIABLE,
    SETTING_PATTERN,
    SweepRequest,
)
from ackbench.infra.errors import InputError

PROBE = "import sys, ackbench.experiments.orchestration.request; print('airflow' in sys.modules)"


def test_fields_of_the_form_become_axes_of_the_right_types() -> None:
    """`"0"` becomes a number, `all` stays a string, `false` becomes a boolean, empty is absent."""
    request = SweepRequest.of(
        {
            "experiment": "quick",
            "acks": ["0", "all"],
            "enable.idempotence": ["false"],
            "partitions": "1, 6",
            "workload.duration_s": 5,
            "fault": [],
        }
    )
    assert request.axes() == {
        "acks": (0, "all"),
        "enable.idempotence": (False,),
        "partitions": (1, 6),
        "workload.duration_s": (5.0,),
    }


def test_a_name_that_is_not_kafkas_is_refused_with_kafkas() -> None:
    """The keys of a request are the labels of the form."""
    with pytest.raises(
        ExperimentError, match=r"unknown key idempotence; did you mean enable\.idem"
    ):
        SweepRequest.of({"experiment": "quick", "idempotence": ["true"]})


def test_the_form_chooses_the_client_and_its_defaults() -> None:
    """Both are axes, under the names of an experiment's YAML file."""
    request = SweepRequest.of(
        {"experiment": "quick", "client": ["librdkafka", "java"], "client.defaults": ["true"]}
    )
    assert request.axes() == {"client": ("librdkafka", "java"), "client.defaults": (True,)}


def test_other_properties_are_axes_too() -> None:
    """The form takes one per line, in the syntax of `--set`."""
    assert SweepRequest.of({"experiment": "quick", "set": ["linger.ms=0,50"]}).axes() == {
        "linger.ms": (0, 50)
    }


@pytest.mark.parametrize(
    ("fields", "controls"),
    [
        ({}, None),
        ({"controls": "as in the experiment"}, None),
        ({"controls": "off"}, False),
        ({"controls": "on"}, True),
    ],
)
def test_the_form_keeps_the_experiments_controls_or_turns_them_on_or_off(
    fields: dict[str, str], controls: bool | None
) -> None:
    """`None` keeps the experiment's."""
    assert SweepRequest.of({"experiment": "quick", **fields}).overrides().controls is controls


def test_an_unknown_field_is_refused_with_the_nearest_name() -> None:
    """Airflow accepts unknown fields, and the run would differ from the request."""
    with pytest.raises(ExperimentError, match="unknown key repaets; did you mean repeats"):
        SweepRequest.of({"experiment": "quick", "repaets": 5})


def test_an_axis_given_twice_is_refused() -> None:
    """In its own field and among the other properties."""
    with pytest.raises(InputError, match="acks is given twice"):
        SweepRequest.of({"experiment": "quick", "acks": ["1"], "set": ["acks=all"]}).axes()


def test_importing_the_request_does_not_import_airflow() -> None:
    """Airflow's SDK takes about 3 s of CPU time; only a DAG file needs it."""
    probed = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, check=True
    )
    assert probed.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("line", "accepted"),
    [
        ("linger.ms=0,50", True),
        ("broker.broker.session.timeout.ms=6000", True),
        ("password.encoder.iterations=4096", True),
        ("fault=leader-crash(at_s=1) >> follower-pause", True),
        ("client.rack=a=password", True),
        ("ssl.key.password=hunter2", False),
        (" producer.ssl.key.password =hunter2", False),
        ("broker.listener.name.x.ssl.keystore.password=hunter2", False),
        ("sasl.oauthbearer.client.credentials.client.secret=$NAME", False),
        ("producer.sasl.jaas.config=x", False),
        ("nonsense", False),
    ],
)
def test_airflow_refuses_a_secret_before_it_stores_the_run(line: str, *, accepted: bool) -> None:
    """A task would read the request too late: it is in Airflow's database by then."""
    assert bool(re.search(SETTING_PATTERN, line)) is accepted


def test_what_a_form_sends_is_marked() -> None:
    """So that it can neither load code nor use this machine's secrets."""
    assert SweepRequest.of({"experiment": "quick"}).overrides().from_form


@pytest.mark.parametrize(
    "named",
    [
        "/tmp/mine.yaml",  # noqa: S108 - it is not read
        "mine.yaml",
        "../catalog/quick",
        "experiments/catalog/quick.yaml",
        "~/mine.yaml",
        "/dev/zero",
        "quick.yaml",
    ],
)
def test_a_request_names_no_path(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may start a sweep chooses from the catalogue; files could name anything."""
    (tmp_path / "mine.yaml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(EXPERIMENTS_VARIABLE, raising=False)
    with pytest.raises(UnknownName, match="allowed: names of the catalogue"):
        SweepRequest.of({"experiment": named}).source()


def test_a_request_names_a_file_of_the_operators_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name; a link in the folder is not offered, because it could lead anywhere."""
    offered = tmp_path / "offered"
    offered.mkdir()
    (offered / "mine.yaml").touch()
    (tmp_path / "outside.yaml").touch()
    (offered / "link.yaml").symlink_to(tmp_path / "outside.yaml")
    monkeypatch.setenv(EXPERIMENTS_VARIABLE, str(offered))

    assert SweepRequest.of({"experiment": "quick"}).source() == "quick"
    assert SweepRequest.of({"experiment": "mine.yaml"}).source() == str(offered / "mine.yaml")
    for named in ("link.yaml", "../outside.yaml", str(offered / "mine.yaml")):
        with pytest.raises(UnknownName):
            SweepRequest.of({"experiment": named}).source()


def test_numbers_of_a_request_are_finite() -> None:
    """JSON of Python's has NaN."""
    with pytest.raises(ExperimentError, match="rate_records_per_s is nan; allowed: a finite"):
        SweepRequest.of({"experiment": "quick", "workload.rate_records_per_s": float("nan")})
