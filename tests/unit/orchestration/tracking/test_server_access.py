"""A remote MLflow server is asked before a sweep starts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ackbench.experiments.orchestration.tracking.server_access import check_server
from ackbench.infra.errors import InputError
from ackbench.infra.machine.home import Home

GIVEN = "Basic bWU6aHVzaC1odXNo"
"""`me:hush-hush`."""


class Server:
    """A server on loopback that answers one user, or with a status."""

    def __init__(self) -> None:
        self.status: int | None = None
        server = self

        class _Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known = self.headers.get("Authorization") == GIVEN
                self.send_response(server.status or (200 if known else 401))
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self.http = HTTPServer(("127.0.0.1", 0), _Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serve, and have ackbench track its sweeps there."""
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever)
    thread.start()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.address)
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


def said(tmp_path: Path) -> list[str]:
    """Return what is said of the server."""
    lines: list[str] = []
    check_server(Home(tmp_path), lines.append)
    return lines


def test_the_login_of_the_environment_is_accepted_in_silence(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the variables of MLflow's own clients."""
    del server
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hush-hush")
    assert said(tmp_path) == []


def test_a_refused_login_is_one_line_before_anything_starts(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after hours of trials, and without the password."""
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "wrong-wrong")
    with pytest.raises(InputError) as refused:
        said(tmp_path)
    text = str(refused.value)
    assert text.startswith(f"MLflow at {server.address} refuses the login (401): set MLFLOW_")
    assert "wrong-wrong" not in text
    assert "\n" not in text


@pytest.mark.parametrize("status", [404, 500, 503])
def test_an_error_of_the_server_costs_no_sweep(server: Server, tmp_path: Path, status: int) -> None:
    """It is said, and the runs can be written afterwards."""
    server.status = status
    (line,) = said(tmp_path)
    assert line.startswith(f"MLflow at {server.address} answers {status}")


def test_a_server_that_is_down_costs_no_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said in one line, at once."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:hush-hush@127.0.0.1:9")
    (line,) = said(tmp_path)
    assert line.startswith("MLflow at http://127.0.0.1:9: ")
    assert "hush-hush" not in line


def test_the_embedded_store_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a file of the home."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert said(tmp_path) == []
