"""`results/manifest.json`: which files are the results of a sweep, and what they are results of.

The manifest is replaced before the tables. So as long as some tables are those of the measurement
before, or after a crash in between, they do not match it, and no reader takes a mixture of two
measurements for results.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ackbench.experiments.ledger.digests import (
    FileDigest,
    InvalidLedger,
    with_digest,
    without_digest,
)
from ackbench.experiments.ledger.documents import why_unreadable

RESULTS_MANIFEST: Final = "manifest.json"


class ResultsManifest(BaseModel):
    """The content of `results/manifest.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    tables: dict[str, FileDigest]
    """The result tables, by file name."""
    trials: dict[str, str] = Field(default_factory=dict)
    """The measured trials, and the SHA-256 of the `trial.json` of each."""
    left_out: dict[str, str] = Field(default_factory=dict)
    """The trials whose ledgers cannot be measured (`--skip-unfit`), with the reasons."""

    def to_json(self) -> str:
        """Return the file's content; equal results give equal bytes."""
        return with_digest(self.model_dump_json(indent=1))


def parse_results_manifest(content: bytes) -> ResultsManifest:
    """Return the manifest in the content of its file.

    Raises:
        InvalidLedger: it was altered or truncated.
    """
    file = f"results/{RESULTS_MANIFEST}"
    try:
        document, has_digest = without_digest(content)
        if not has_digest:
            raise InvalidLedger(f"{file} was altered: it does not end with its SHA-256")
        return ResultsManifest.model_validate_json(document)
    except ValidationError as error:
        raise InvalidLedger(
            f"{file} {why_unreadable(content, 'is no manifest of results')}"
        ) from error
    except ValueError as error:
        raise InvalidLedger(f"{file} {error}") from error
