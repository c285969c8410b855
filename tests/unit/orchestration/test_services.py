"""What `ackbench up` asks for and checks before it starts anything."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import Final

import pytest
from support.command_line import ackbench
from support.servers import serving

from ackbench.experiments.orchestration import services
from ackbench.experiments.orchestration.tracking import store
from ackbench.infra.airflow.environment import airflow_environment
from ackbench.infra.errors import HarnessError, MachineError
from ackbench.infra.machine.home import REPOSITORY, Home, HomeMoved
from ackbench.infra.machine.loopback import LOOPBACK


def test_a_password_is_generated_shown_once_and_kept_for_this_user_alone(tmp_path: Path) -> None:
    """The second start uses it again and shows nothing."""
    home, said = Home(tmp_path), list[str]()
    first, second = (services.ensure_password(home, said.append) for _ in range(2))
    path = services.password_file(home)

    assert first == second
    assert len(first) >= 20
    assert len(said) == 1
    assert first in said[0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {services.USER: first}


def test_airflow_asks_for_the_password_unless_it_is_told_not_to(tmp_path: Path) -> None:
    """With a login nobody is an administrator, also with the password."""
    home = Home(tmp_path)
    with_login, without = (
        services.services_of(home, 1, 2, password)[0].environment for password in ("secret", None)
    )

    assert with_login["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS"] == "False"
    assert with_login["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] == "ackbench:user"
    assert "secret" not in "".join(with_login.values())
    assert without["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS"] == "True"


def test_both_pages_check_the_host_header(tmp_path: Path) -> None:
    """Airflow by its plugin (tests/dags), MLflow by its option: without patterns such as 10.*."""
    api_server, *_, mlflow = services.services_of(Home(tmp_path), 1, 2, None)

    assert api_server.environment["AIRFLOW__CORE__PLUGINS_FOLDER"] == str(services.PLUGINS)
    hosts = mlflow.command[mlflow.command.index("--allowed-hosts") + 1]
    assert hosts == f"{LOOPBACK}:2,localhost:2"


def test_two_services_need_two_ports_and_nothing_is_made(tmp_path: Path) -> None:
    """The home is not created."""
    with pytest.raises(MachineError, match="--airflow-port and --mlflow-port are both 40123"):
        services.up(Home(tmp_path / "home"), 40123, 40123)
    assert not (tmp_path / "home").exists()


def test_root_has_to_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can log in could otherwise start processes as root."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    result = ackbench("up")

    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "with --as-root" in result.stderr
    assert not (tmp_path / "home").exists()


def test_services_have_the_timeout_of_the_execution_api_that_the_document_names(
    tmp_path: Path,
) -> None:
    """With Airflow's 5 s, tasks fail on a busy machine before they start, without a log."""
    named = re.search(
        r"AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT=(\d+)",
        (REPOSITORY / "docs" / "running.md").read_text(),
    )
    scheduler = services.services_of(Home(tmp_path), 1, 2, None)[1]
    assert named
    assert scheduler.environment["AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT"] == named[1]


def _service(
    name: str, code: str, *arguments: str, required: bool, healthy: bool = True
) -> services.Service:
    command = (sys.executable, "-c", code, *arguments)
    return services.Service(name, command, lambda: healthy, os.environ, required=required)


_WAITS: Final = "import signal; signal.pause()"
_ENDS: Final = "print('no memory'); raise SystemExit(3)"
_ENDS_ONCE_ALL_RUN: Final = """
import pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
sys.exit(3)
"""
"""An exit before all are healthy ends the start, which is another case."""


def _serve(home: Home, *served: services.Service) -> list[str]:
    """Serve until a line says that a service has exited; return the lines."""
    said: list[str] = []
    stop = services._StopRequest()

    def say(line: str) -> None:
        said.append(line)
        stop.requested = stop.requested or "exited" in line

    home.airflow.mkdir(parents=True)
    services._serve(home, served, stop, (home.root / "all-run").touch, say)
    return said


def test_all_services_of_airflow_sign_with_one_secret_which_each_start_makes_anew(
    tmp_path: Path,
) -> None:
    """Also in a home whose database was made, and whose configuration file was not."""
    signing = [
        {
            service.environment["AIRFLOW__API_AUTH__JWT_SECRET"]
            for service in services.services_of(Home(tmp_path), 1, 2, None)[:3]
        }
        for _ in range(2)
    ]
    (first,), (second,) = signing
    assert first != second
    assert len(first) >= 32


def test_mlflow_and_the_live_reader_are_only_pages_and_the_others_go_on_without_them(
    tmp_path: Path,
) -> None:
    """The tasks write to MLflow's database themselves: a sweep needs Airflow's processes only."""
    served = services.services_of(Home(tmp_path), 1, 2, None)
    assert {one.name for one in served if not one.required} == {"live", "mlflow"}

    said = _serve(
        Home(tmp_path),
        _service("scheduler", _WAITS, required=True),
        _service("mlflow", _ENDS_ONCE_ALL_RUN, str(tmp_path / "all-run"), required=False),
    )
    assert said[0].startswith("mlflow exited with status 3, and the others go on")


def test_the_services_end_with_one_that_a_sweep_needs(tmp_path: Path) -> None:
    """And say which one, its status, and the end of its log."""
    with pytest.raises(HarnessError, match=r"(?s)^scheduler exited with status 3.*no memory$"):
        _serve(
            Home(tmp_path),
            _service("scheduler", _ENDS, required=True),
            _service("mlflow", _WAITS, required=False),
        )


def test_a_page_that_exits_before_it_answers_ends_the_start(tmp_path: Path) -> None:
    """Nothing waits for an answer of a process that has exited."""
    with pytest.raises(HarnessError, match=r"^mlflow exited with status 3"):
        _serve(
            Home(tmp_path),
            _service("scheduler", _WAITS, required=True),
            _service("mlflow", _ENDS, required=False, healthy=False),
        )


def test_mlflows_page_alone_ends_with_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing else to go on with. The home was set up for nothing else."""
    home = Home(tmp_path / "home")
    monkeypatch.setattr(services, "require_free_port", lambda *_: None)
    monkeypatch.setattr(store, "ensure_store", lambda *_: None)
    monkeypatch.setattr(
        services, "mlflow_service", lambda *_: _service("mlflow", _ENDS, required=False)
    )
    with pytest.raises(HarnessError, match=r"^mlflow exited with status 3"):
        services.serve_mlflow(home, 1, lambda: None, lambda _: None)


def test_a_home_that_is_moved_ends_the_services_and_is_not_made_again(tmp_path: Path) -> None:
    """Tasks would go on with half a sweep under the old name."""
    home, moved = Home(tmp_path / "home"), tmp_path / "moved"
    home.airflow.mkdir(parents=True)

    def move() -> None:
        home.root.rename(moved)

    with pytest.raises(HomeMoved, match=rf"was moved to {moved} while it was in use: move it back"):
        services._serve(
            home,
            [_service("scheduler", _WAITS, required=True)],
            services._StopRequest(),
            move,
            lambda _: None,
        )
    assert not home.root.exists()


def test_a_proxy_of_the_shell_is_not_asked_for_addresses_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A company's proxy does not reach them: the services would never be healthy."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "company.example")
    with serving(lambda asked: asked.sendall(b"HTTP/1.0 200 OK\r\n\r\n")) as port:
        assert services._answers(f"http://127.0.0.1:{port}/health")
    for name in ("no_proxy", "NO_PROXY"):
        assert airflow_environment(Home(tmp_path))[name] == "company.example,127.0.0.1,localhost"
