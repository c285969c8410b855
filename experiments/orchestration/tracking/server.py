"""MLflow's server, as `ackbench up` starts it: the tracking page and API, and nothing else of it.

MLflow's own application also serves an assistant that runs commands on this machine, a gateway to
language models, and a job API. MLflow has no login here, so these would be every local user's.
"""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI
from flask import Response
from flask import request as current_request
from mlflow.protos.service_pb2 import CreateExperiment
from mlflow.server import app as tracking
from mlflow.server.fastapi_app import create_fastapi_app
from mlflow.server.handlers import (
    _get_request_message as parse_message,  # as MLflow's own handler parses the request
)
from starlette.routing import Mount, Route

_CREATE_EXPERIMENT: Final = "/mlflow/experiments/create"
_SERVED: Final = ("/health", "/server-info")
"""The ends of the paths that the page asks for and MLflow serves outside of its tracking part."""


def create_app() -> FastAPI:
    """Return MLflow's application with its checks of host and origin, and with tracking only."""
    tracking.before_request(refuse_artifact_location)
    app: FastAPI = create_fastapi_app(tracking)
    app.router.routes = [
        route
        for route in app.routes
        if isinstance(route, Mount) or (isinstance(route, Route) and route.path.endswith(_SERVED))
    ]
    return app


def refuse_artifact_location() -> Response | None:
    """Return status 400 for an experiment that names the folder of its artifacts.

    Whoever creates such an experiment could otherwise write files to any folder of the user who
    runs the server. Without a location, artifacts are stored below the server's artifact root.
    """
    if not current_request.path.endswith(_CREATE_EXPERIMENT):
        return None
    if not parse_message(CreateExperiment()).artifact_location:  # type: ignore[no-untyped-call]
        return None
    return Response("artifact_location is not allowed: the server sets it\n", 400)
