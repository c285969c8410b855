"""The errors of experiments; their root, and which exit code each has, is in `infra.errors`."""

from collections.abc import Mapping

from infra.errors import HarnessError, InputError


class ExperimentError(InputError):
    """An experiment file or an override is wrong: names file, key, value and what is allowed."""


class UnknownName(InputError):
    """An experiment, sweep, fault or axis that does not exist; names the nearest that does."""


class LedgerError(InputError):
    """A ledger is incomplete, cut short, of another version or of another trial."""


class NotComparable(InputError):
    """Two sweeps of which nothing can be said side by side; the text says why."""


class TrialFailed(HarnessError):
    """The harness could not carry a trial to its end; the cluster's logs are kept."""


class HealFailed(TrialFailed):
    """What a fault did could not be undone: nothing after it could be believed, so the sweep ends; names the fault and what stayed broken."""


class ClientLibraryError(HarnessError):
    """librdkafka was not found, or it is a version whose structures have not been verified."""


class CrcMismatch(HarnessError):
    """A reader that checks was given batches whose CRC does not hold: it is refused their records, and what they hold is another question."""

    def __init__(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Say of which partitions, and where the first such batch begins."""
        super().__init__(
            "; ".join(
                f"the batch of {topic}-{partition} at offset {offset} fails its CRC"
                for partition, offset in offsets.items()
            )
        )
        self.offsets = offsets
