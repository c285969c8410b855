"""The user's configuration of Spark: what it replaces, and what is refused before a JVM starts."""

import socket
from pathlib import Path

import pytest

from ackbench.experiments.ledger.spark_settings import (
    SparkSetupError,
    default_settings,
    parse_settings,
)
from ackbench.spark_jobs.configuration import (
    ContextRequest,
    check_deploy_mode,
    check_master,
    is_local,
    whole_seconds,
)
from ackbench.spark_jobs.session import driver_settings, driver_variables

DEFAULTS = """\
# a comment
spark.master            spark://example:7077
spark.executor.memory=3g
spark.driver.extraJavaOptions -Da=b -Dc="d e"
  ! another comment
spark.eventLog.enabled: true
"""


def test_settings_are_parsed_and_the_last_of_a_key_counts() -> None:
    """A value may contain an equals sign."""
    texts = ["spark.a=1", "spark.driver.extraJavaOptions=-Da=b", "spark.a=2"]
    assert parse_settings(texts) == {"spark.a": "2", "spark.driver.extraJavaOptions": "-Da=b"}


@pytest.mark.parametrize("text", ["spark.a", "executor.memory=2g", "=2", "spark. a=1"])
def test_a_setting_of_another_form_is_refused(text: str) -> None:
    """The message has the text and an example."""
    with pytest.raises(SparkSetupError, match=rf"^--conf {text}: .*spark\.executor\.memory=2g$"):
        parse_settings([text])


def test_the_driver_s_place_is_refused_in_one_line_with_what_to_do() -> None:
    """Spark itself would say that the mode is not for shells."""
    check_deploy_mode({})
    check_deploy_mode({"spark.submit.deployMode": "client"})
    with pytest.raises(SparkSetupError, match="spark-submit --deploy-mode cluster") as refused:
        check_deploy_mode({"spark.submit.deployMode": "cluster"})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "5s", ""])
def test_a_time_that_is_no_whole_number_of_seconds_is_refused_with_its_name(text: str) -> None:
    """Before a JVM starts."""
    assert whole_seconds("spark.ackbench.x", None, 7.5) == 7.5
    assert whole_seconds("spark.ackbench.x", "20", 7.5) == 20
    with pytest.raises(SparkSetupError, match=rf"^spark\.ackbench\.x={text}: allowed is a whole"):
        whole_seconds("spark.ackbench.x", text, 7.5)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2, 3]", "yarn"])
def test_masters_without_an_address_are_not_contacted(master: str) -> None:
    """A local one is also known as such."""
    check_master(master)
    assert is_local(master) == master.startswith("local")


@pytest.mark.parametrize("master", ["sc://", "sc://:15002", "sc://host:port"])
def test_a_connect_server_needs_a_host_and_a_port(master: str) -> None:
    """Nothing is contacted."""
    with pytest.raises(SparkSetupError, match=r"give host and port, as in sc://HOST:15002"):
        check_master(master)


def test_a_token_in_the_address_of_a_connect_server_is_refused_and_not_shown() -> None:
    """The address is in messages and in the environment of each task."""
    with pytest.raises(SparkSetupError) as refused:
        check_master("sc://host:1/;use_ssl=true;token=hidden")
    assert "SPARK_CONNECT_AUTHENTICATE_TOKEN" in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_a_connect_server_that_does_not_answer_is_refused_with_its_url() -> None:
    """PySpark would try for ten minutes."""
    with pytest.raises(SparkSetupError, match=r"server sc://127\.0\.0\.1:1 does not answer"):
        check_master("sc://127.0.0.1:1")


@pytest.mark.parametrize("master", ["http://host:8080", "mesos://host:5050", "local[2", "host"])
def test_an_unknown_master_is_refused(master: str) -> None:
    """The message names those that Spark has."""
    with pytest.raises(SparkSetupError, match=r"has no such master; give one of local\[N\]"):
        check_master(master)


@pytest.mark.parametrize("master", ["spark://host", "spark://host:port", "spark://:7077"])
def test_a_standalone_master_needs_host_and_port(master: str) -> None:
    """Nothing is contacted."""
    with pytest.raises(SparkSetupError, match="give host and port"):
        check_master(master)


def test_a_master_that_does_not_answer_is_refused_with_its_url() -> None:
    """Port 1 (tcpmux) refuses connections at once."""
    with pytest.raises(
        SparkSetupError, match=r"spark://127\.0\.0\.1:1 does not answer .*refused.*check that"
    ):
        check_master("spark://127.0.0.1:1")


def test_one_of_several_masters_is_enough() -> None:
    """A standalone cluster with standby masters has several addresses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")


def test_the_defaults_file_of_the_user_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value may contain blanks and equals signs; a missing file has no settings."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert default_settings() == {}
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS)
    assert default_settings() == {
        "spark.master": "spark://example:7077",
        "spark.executor.memory": "3g",
        "spark.driver.extraJavaOptions": '-Da=b -Dc="d e"',
        "spark.eventLog.enabled": "true",
    }


def test_only_a_local_master_is_pinned_to_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of a local one run in this Python; those of another one in the user's."""
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    request = ContextRequest(tmp_path, tmp_path / "log")
    local, cluster = (driver_settings(request, master, {}) for master in ("local[2]", "yarn"))
    assert local["spark.driver.host"] == local["spark.driver.bindAddress"] == "127.0.0.1"
    assert not [key for key, value in cluster.items() if "127.0.0.1" in value]
    variables = driver_variables(request, "yarn", {})
    assert variables.keys().isdisjoint({"SPARK_LOCAL_IP", "PYSPARK_PYTHON"})
    assert {"SPARK_LOCAL_IP", "PYSPARK_PYTHON"} <= driver_variables(request, "local", {}).keys()


def test_what_the_user_sets_replaces_the_job_s_settings(tmp_path: Path) -> None:
    """Java options of the user replace all of the job's: two garbage collectors are an error."""
    request = ContextRequest(tmp_path, tmp_path / "log", java_options="-XX:+UseSerialGC")
    own = driver_settings(request, "local[2]", {})
    assert "-XX:+UseSerialGC" in own["spark.driver.defaultJavaOptions"]
    user = {"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-XX:+UseG1GC"}
    replaced = driver_settings(request, "local[2]", user)
    assert own.keys() - replaced.keys() == {"spark.ui.enabled"}
    assert "-XX:+UseSerialGC" not in replaced["spark.driver.defaultJavaOptions"]


@pytest.mark.parametrize(
    ("user", "options"),
    [
        ({}, "-XX:+UseSerialGC"),
        ({"spark.driver.extraJavaOptions": "-Xss2m"}, "-XX:+ExitOnOutOfMemoryError"),
        ({"spark.driver.defaultJavaOptions": "-Xss2m"}, "-XX:+ExitOnOutOfMemoryError -Xss2m"),
    ],
)
def test_a_jvm_without_memory_exits_whatever_its_options_are(
    tmp_path: Path, user: dict[str, str], options: str
) -> None:
    """Spark's threads log an OutOfMemoryError and end, and the job would wait for ever."""
    request = ContextRequest(tmp_path, tmp_path / "log", java_options="-XX:+UseSerialGC")
    driver = driver_settings(request, "local[2]", user)["spark.driver.defaultJavaOptions"]
    assert driver.startswith("-XX:+ExitOnOutOfMemoryError")
    assert driver.endswith(options)
    user = {"spark.executor.defaultJavaOptions": "-Xss2m"}
    executors = driver_settings(request, "yarn", user)["spark.executor.defaultJavaOptions"]
    assert executors == "-XX:+ExitOnOutOfMemoryError -Xss2m"
