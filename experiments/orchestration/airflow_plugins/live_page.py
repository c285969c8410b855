"""A plugin of Airflow's API server: the live page, for users who are logged in.

The server reads the files that the live reader writes (`experiments.pages.live`); the page's links
to records and reports of sweeps lead here too. Nothing else of the home is served.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

from airflow.api_fastapi.core_api.security import get_user
from airflow.plugins_manager import AirflowPlugin
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse, Response

from ackbench.experiments.pages.live.files import DATA, PAGE, live_folder
from ackbench.infra.machine.home import Home

PREFIX: Final = "/ackbench"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_UNAUTHORIZED: Final = 401
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'self' 'unsafe-inline'; "
        "img-src data:; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
}
_TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".txt": "text/plain",
}


def live_app(home: Home) -> FastAPI:
    """Return the application; every path of it needs a login.

    Args:
        home: the home whose page is served.
    """
    app = FastAPI(dependencies=[Depends(get_user)], docs_url=None, redoc_url=None, openapi_url=None)

    @app.exception_handler(HTTPException)
    def refuse(request: Request, error: HTTPException) -> Response:
        """Send who opens the page without a login to the login, which leads back."""
        if error.status_code == _UNAUTHORIZED and request.url.path.endswith("/live/"):
            return RedirectResponse(f"/api/v2/auth/login?next={quote(PREFIX + '/live/', safe='')}")
        return JSONResponse({"detail": error.detail}, error.status_code)

    @app.get("/live")
    def redirect() -> RedirectResponse:
        """Return the page's address, relative to which its script is found."""
        return RedirectResponse(f"{PREFIX}/live/")

    @app.get("/live/")
    def page() -> FileResponse:
        """Return the page, which is the same file for every sweep: its data is in the script."""
        return _file(live_folder(home), PAGE)

    @app.get("/live/data.js")
    def data() -> FileResponse:
        """Return what the page shows now."""
        return _file(live_folder(home), DATA)

    @app.get("/sweeps/{sweep}/report.html")
    def report(sweep: Annotated[str, Depends(_valid_sweep)]) -> FileResponse:
        """Return the report of a sweep of this home; 404 until the step `report` has written it."""
        return _file(home.sweeps / sweep, "report.html")

    @app.get("/sweeps/{sweep}/trials/{trial}/{name}")
    def trial_file(
        sweep: Annotated[str, Depends(_valid_sweep)], trial: str, name: str
    ) -> FileResponse:
        """Return the record of a trial, or why it failed."""
        if not _NAME.fullmatch(trial) or name not in {"trial.json", "reason.txt"}:
            raise HTTPException(404)
        return _file(home.sweeps / sweep / "trials" / trial, name)

    return app


def _valid_sweep(sweep: str) -> str:
    if not _NAME.fullmatch(sweep):
        raise HTTPException(404)
    return sweep


def _file(folder: Path, name: str) -> FileResponse:
    """Return a regular file of a folder, not through a link."""
    path = folder / name
    if path.is_symlink() or folder.is_symlink() or not path.is_file():
        raise HTTPException(404)
    return FileResponse(path, media_type=_TYPES[path.suffix], headers=dict(_HEADERS))


class LivePage(AirflowPlugin):
    """Adds the page, and a link to it in the navigation."""

    name = "ackbench_live_page"
    fastapi_apps: list[Any] = [  # noqa: RUF012 - Airflow's own attribute
        {"app": live_app(Home.from_environment()), "url_prefix": PREFIX, "name": "ackbench live"}
    ]
    external_views: list[Any] = [  # noqa: RUF012 - the same
        {
            "name": "Live",
            "href": f"{PREFIX}/live/",
            "destination": "nav",
            "url_route": "ackbench-live",
        }
    ]
