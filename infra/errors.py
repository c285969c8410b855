"""The root of all errors, and the errors of clusters and machines.

Two kinds matter to a caller: what the user can fix (`InputError`, exit code 2), and what the
harness could not do (`HarnessError`, exit code 1). Each text is one line. That Kafka lost a
record is a result, never an error.
"""


class AckbenchError(Exception):
    """An error that ackbench raises on purpose; its text is one line for the user."""

    exit_code = 1


def says_all(error: BaseException) -> bool:
    """Return whether the line of an error of ackbench's says all.

    It does of an invalid request, and of what no foreign error has caused.
    """
    if isinstance(error, InputError):
        return True
    return isinstance(error, AckbenchError) and isinstance(error.__cause__, AckbenchError | None)


class InputError(AckbenchError):
    """The request is invalid; the text names the value, what is allowed, and what to do."""

    exit_code = 2


class MachineError(InputError):
    """This machine lacks something that the request needs: memory, disk, a port, a file."""


class HarnessError(AckbenchError):
    """The harness could not do its work; this is no verdict on Kafka."""


class WaitTimeout(HarnessError):
    """A condition did not become true in time; the text names it and the last observed state."""


class NodeFailed(HarnessError):
    """A node did not start, or exited on its own; the text ends with lines of its own log."""


class SupervisorError(HarnessError):
    """The supervisor of a cluster refused a request, or cannot be reached."""


class ImpairmentConflict(SupervisorError):
    """The network resource of an impairment is already in use by another impairment."""
