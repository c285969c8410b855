"""Whether a remote MLflow server accepts this process, asked before a sweep starts."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from ackbench.experiments.orchestration.tracking.store import (
    experiment_prefix,
    server_error,
    tracking_uri,
    without_credentials,
)
from ackbench.infra.errors import InputError
from ackbench.infra.machine.home import Home

_QUESTION: Final = "/api/2.0/mlflow/experiments/search"
_TIMEOUT_S: Final = 10
_SHORTENED: Final = 200


def check_server(home: Home, say: Callable[[str], None]) -> None:
    """Ask a remote MLflow server one question, with the login of the environment, once.

    A server that is down costs no sweep: its runs can be written afterwards.

    Args:
        home: the home of the sweep.
        say: called with a line if the server does not answer, or with an error.

    Raises:
        InputError: the server refuses the login, so it would refuse the runs; or the prefix of
            experiments is invalid.
    """
    experiment_prefix()  # before a sweep, not after it
    uri = tracking_uri(home)
    if not uri.startswith(("http://", "https://")):
        return
    from mlflow.exceptions import MlflowException
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    server = f"MLflow at {without_credentials(uri)}"
    try:
        status = http_request(  # type: ignore[no-untyped-call]
            get_default_host_creds(uri),  # type: ignore[no-untyped-call]
            _QUESTION,
            "GET",
            max_retries=0,
            timeout=_TIMEOUT_S,
            raise_on_status=False,
            params={"max_results": 1},
        ).status_code
    except MlflowException as error:
        reason = server_error(uri, error)[:_SHORTENED]
        say(f"{reason}; the sweep runs without it, and its runs may be missing")
        return
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise InputError(
            f"{server} refuses the login ({status}): set MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
        )
    if status != HTTPStatus.OK:
        say(f"{server} answers {status}; the sweep runs without it, and its runs may be missing")
