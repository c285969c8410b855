"""What the job descriptions of producers, consumers and members of groups have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.trial.events.clock import anchor_ns


class ClientJob(Frozen):
    """The job description of a client in a process of its own."""

    # The fork server imports it, and each client is a copy: it would build the validator again.
    model_config = ConfigDict(defer_build=False)

    client_version: str | None = None
    """The version of librdkafka; `None`: the installed one."""
    bootstrap_servers: str
    topic: str
    settings: dict[str, str]
    """The effective settings, as far as they matter for correctness."""
    passed: dict[str, str] | None = None
    """The settings to pass if the client keeps its own defaults; `None`: pass all of `settings`."""
    token: Annotated[int, Field(ge=0, lt=2**63)]
    """Identifies the trial's records."""
    folder: Path
    """Where the client writes its rows, its log and its errors."""
    anchor_ns: int = Field(default_factory=anchor_ns)
    """The parent's anchor: all processes of a trial share one clock anchor."""

    @property
    def passed_settings(self) -> dict[str, str]:
        """The settings to pass to the client, without `bootstrap.servers`."""
        return self.settings if self.passed is None else self.passed

    @property
    def stem(self) -> str:
        """How the names of the client's files begin: `producer-0`."""
        raise NotImplementedError

    @property
    def effective(self) -> Path:
        """The client's effective settings, as JSON."""
        return self.file("effective.json")

    @property
    def log(self) -> Path:
        """The log of librdkafka."""
        return self.file("log")

    def file(self, kind: str) -> Path:
        """Return the client's file of a kind: `producer-0.log`."""
        return self.folder / f"{self.stem}.{kind}"
