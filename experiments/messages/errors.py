"""The errors of experiments. `infra.errors` has their base classes, with the exit codes."""

from collections.abc import Mapping
from typing import Final

from ackbench.infra.errors import HarnessError, InputError

GATE_EXIT_CODE: Final = 3
"""The results do not pass the gate; 1 is an error of the harness, 2 an invalid request."""


class ExperimentError(InputError):
    """An experiment file or an override is invalid.

    The text names the file, the key, its value and what is allowed.
    """


class UnknownName(InputError):
    """An experiment, sweep, fault or axis does not exist. The text suggests similar names."""


class LedgerError(InputError):
    """A ledger is incomplete, truncated, or of another version or trial."""


class StorageError(InputError):
    """A folder or an object store cannot be read or written; the text has the URI and the reason.

    The text has no credentials, because a URI with credentials is refused.
    """


class SparkError(InputError):
    """Spark cannot run the measuring job as it is configured: its master, a setting, executors."""


class NotComparable(InputError):
    """Two sweeps cannot be compared; the text gives the reason."""


class NotPublished(HarnessError):
    """The trials of a sweep are sealed on this machine and not completely in its store."""


class TrialFailed(HarnessError):
    """The harness could not complete a trial; the cluster's logs are kept."""


class HealFailed(TrialFailed):
    """A fault could not be healed. The text names the fault and what is still broken.

    The sweep stops, because no later trial on this cluster would be reliable.
    """


class ClientLibraryError(HarnessError):
    """The librdkafka library was not found, or its version has unverified structure layouts."""


class CrcMismatch(HarnessError):
    """A consumer with `check.crcs` read batches with invalid CRCs.

    librdkafka returns an error instead of their records. The content of the batches is unknown.
    """

    def __init__(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Create the error.

        Args:
            topic: the topic's name.
            offsets: the base offset of the first such batch, by partition.
        """
        super().__init__(
            "; ".join(
                f"the batch of {topic}-{partition} at offset {offset} fails its CRC"
                for partition, offset in offsets.items()
            )
        )
        self.offsets = offsets
