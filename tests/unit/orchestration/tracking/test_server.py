"""MLflow's server as `ackbench up` starts it: what other users of the machine cannot do with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

API = "/ajax-api/2.0/mlflow"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, dict[str, str]]]:
    """Return a client of the server's application, and the variables that it needs."""
    folder = tmp_path_factory.mktemp("mlflow")
    database = f"sqlite:///{folder}/mlflow.db"
    variables = {
        "_MLFLOW_SERVER_FILE_STORE": database,
        # MLflow's server sets it for its process, which is that of all tests here.
        "MLFLOW_TRACKING_URI": database,
        "_MLFLOW_SERVER_ARTIFACT_ROOT": (folder / "artifacts").as_uri(),
        "MLFLOW_SERVER_ALLOWED_HOSTS": "127.0.0.1:5000",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlflow.server.handlers._tracking_store", None)
        patch.setattr("mlflow.server.app.before_request_funcs", {})
        with patch.context() as environment:
            for name, value in variables.items():
                environment.setenv(name, value)
            from ackbench.experiments.orchestration.tracking.server import create_app

            application = create_app()
        yield TestClient(application, base_url="http://127.0.0.1:5000"), variables


@pytest.fixture
def client(
    server: tuple[TestClient, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> TestClient:
    """Return the client of a server with its variables and a database of its own."""
    made, variables = server
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.mark.parametrize("root", ["/api/2.0/mlflow", API])
@pytest.mark.parametrize("name", ["artifact_location", "artifactLocation"])
def test_an_experiment_cannot_name_the_folder_of_its_artifacts(
    client: TestClient, tmp_path: Path, root: str, name: str
) -> None:
    """Or else its creator could write files to it."""
    answer = client.post(
        f"{root}/experiments/create", json={"name": "elsewhere", name: tmp_path.as_uri()}
    )
    assert (answer.status_code, answer.text.count("\n")) == (400, 1)
    assert "artifact_location is not allowed" in answer.text
    found = client.get(f"{API}/experiments/get-by-name", params={"experiment_name": "elsewhere"})
    assert found.status_code == 404


def test_an_experiment_without_a_location_can_be_created(client: TestClient) -> None:
    """Its artifacts are below the server's root, where no other user can write."""
    answer = client.post(f"{API}/experiments/create", json={"name": "here"})
    assert answer.status_code == 200, answer.text
    identifier = answer.json()["experiment_id"]
    found = client.get(f"{API}/experiments/get", params={"experiment_id": identifier}).json()
    assert found["experiment"]["artifact_location"].endswith(f"/artifacts/{identifier}")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/ajax-api/3.0/mlflow/assistant/message"),
        ("PUT", "/ajax-api/3.0/mlflow/assistant/config"),
        ("POST", "/ajax-api/3.0/jobs/"),
        ("POST", "/gateway/mlflow/v1/chat/completions"),
        ("POST", "/gateway/proxy/any/path"),
        ("POST", "/ajax-api/3.0/mlflow/mcp-servers"),
        ("POST", "/v1/traces"),
    ],
)
def test_only_tracking_is_served(client: TestClient, method: str, path: str) -> None:
    """MLflow's assistant runs commands as the user who started the server."""
    assert client.request(method, path, json={}).status_code in {404, 405}


@pytest.mark.parametrize("path", ["/", "/health", "/version", "/ajax-api/3.0/mlflow/server-info"])
def test_the_page_and_what_it_asks_for_are_served(client: TestClient, path: str) -> None:
    """The other routes of tracking are MLflow's own."""
    assert client.get(path).status_code == 200


def test_another_host_is_refused(client: TestClient) -> None:
    """A foreign page could otherwise make a name of its own an address of this machine."""
    assert client.get("/graphql", headers={"Host": "rebound.example"}).status_code == 403
