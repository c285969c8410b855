"""The services of a Docker Compose file, with what stands in other files: `env_file`, `extends`.

docs.docker.com/reference/compose-file/services: variables of `environment` come before those of
`env_file`, and what a service sets itself before what it extends. Only files below the folder of
the first one are read; of others a note says that they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ackbench.experiments.results.checkup.files.properties_files import pairs_of
from ackbench.experiments.results.checkup.files.text import text_of
from ackbench.experiments.results.checkup.files.trees import (
    LineText,
    at,
    items,
    line_of,
    mapping,
    yaml_documents,
)
from ackbench.infra.errors import InputError

_MERGED: Final = ("environment", "deploy")
"""Keys of a service whose values are merged with those of the service that it extends."""
_JOINED: Final = ("volumes", "env_file")
"""Keys whose lists are joined."""
_MOST_EXTENDED: Final = 20
"""Services in a row that extend one another; more are a circle."""


class ComposeFiles:
    """A Compose file and the files that it names.

    Args:
        path: the file.
        services: of it.
        note: called with what is left out, one line each.
    """

    def __init__(
        self, path: Path, services: Mapping[str, Any], note: Callable[[str], None]
    ) -> None:
        self.services = services
        self._path = path
        self._note = note

    def service(self, name: str) -> Mapping[str, Any]:
        """Return a service, with what it has of those that it extends.

        It still has the key `extends` if one of them was not found; a note says so.
        """
        return self._extended(name, self.services, self._path, 0)

    def _extended(
        self, name: str, services: Mapping[str, Any], path: Path, depth: int
    ) -> Mapping[str, Any]:
        service = {**mapping(at(services, name))}
        _localise(service, path if path != self._path else None)
        extends = at(service, "extends")
        if extends is None:
            return service
        if depth == _MOST_EXTENDED:
            self._note(f"{name}: extends leads back to itself")
            return service
        parent = str(at(extends, "service") or extends)
        file = at(extends, "file")
        try:
            found = path if file is None else self._within(path, str(file))
            known = services if file is None else _services_of(found)
        except InputError as error:
            self._note(f"{name}: extends is not followed: {error}")
            return service
        if parent not in known:
            self._note(f"{name}: extends {parent}, which is no service of {found.name}")
            return service
        own = {key: value for key, value in service.items() if key != "extends"}
        return _merge(self._extended(parent, known, found, depth + 1), own)

    def variables(self, name: str, service: Mapping[str, Any]) -> dict[LineText, str]:
        """Return the variables of a service: those of its files, then its own."""
        found: dict[LineText, str] = {}
        for entry in _entries(at(service, "env_file")):
            file = str(at(entry, "path") or entry)
            try:
                path = self._within(self._path, file)
                pairs = list(pairs_of(text_of(path), path))
            except InputError as error:
                if at(entry, "required") not in {False, "false"}:
                    self._note(f"{name}: env_file is not read: {error}")
                continue
            shown = str(path.relative_to(self._path.parent.resolve()))
            own = {LineText(key, key.line, shown): value.strip("\"'") for key, value in pairs}
            found = _overridden(found, own)
        return _overridden(found, environment_of(at(service, "environment")))

    def _within(self, path: Path, named: str) -> Path:
        """Return a file that another one names.

        Raises:
            InputError: it is not below the folder of the first file.
        """
        found, folder = (path.parent / named).resolve(), self._path.parent.resolve()
        if not found.is_relative_to(folder):
            raise InputError(f"{named} is outside of {folder.name or folder}: give it too")
        return found


def environment_of(value: object) -> dict[LineText, str]:
    """Return the variables of a service, written as a mapping or as a list of `NAME=value`."""
    if isinstance(value, dict):
        return {name: "" if one is None else str(one) for name, one in value.items()}
    pairs = [(str(one).partition("="), one) for one in items(value)]
    return {
        LineText(name, line_of(one) or 1, getattr(one, "file", None)): text
        for (name, _, text), one in pairs
    }


def _overridden(
    variables: Mapping[LineText, str], others: Mapping[LineText, str]
) -> dict[LineText, str]:
    """Return variables with others that come first; a key of both has the others' line."""
    return {name: value for name, value in variables.items() if name not in others} | {**others}


def _entries(value: object) -> Iterator[object]:
    if value is not None:
        yield from items(value) or [value]


def _services_of(path: Path) -> Mapping[str, Any]:
    documents = yaml_documents(text_of(path), path)
    return mapping(at(documents[0], "services")) if documents else {}


def _localise(service: dict[str, Any], path: Path | None) -> None:
    """Make a service of another file say where its variables are from."""
    if path is None:
        return
    if "env_file" in service:
        service["env_file"] = [
            {**mapping(one), "path": str(path.parent / str(at(one, "path") or one))}
            for one in _entries(service["env_file"])
        ]
    if "environment" in service:
        service["environment"] = {
            LineText(name, name.line, path.name): value
            for name, value in environment_of(service["environment"]).items()
        }


def _merge(parent: Mapping[str, Any], service: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**parent, **service}
    for key in _MERGED:
        if key in parent and key in service:
            if key == "environment":
                merged[key] = _overridden(environment_of(parent[key]), environment_of(service[key]))
            else:
                merged[key] = {**mapping(parent[key]), **mapping(service[key])}
    for key in _JOINED:
        if key in parent and key in service:
            merged[key] = [*_entries(parent[key]), *_entries(service[key])]
    return merged
