"""The root of the tree of errors, and the errors of clusters and machines.

Two kinds matter to a caller: what the user can mend (`InputError`, one line, exit code 2) and what the
harness could not do (`HarnessError`, exit code 1). That Kafka lost a record is never an error.
"""


class AckbenchError(Exception):
    """Anything that ackbench raises on purpose; its text is one line for a person."""

    exit_code = 1


class InputError(AckbenchError):
    """The user asked for something that cannot be; the text says what is wrong and what would be right."""

    exit_code = 2


class MachineError(InputError):
    """This machine lacks something the request needs: memory, disk, a port, a file, a writable folder."""


class HarnessError(AckbenchError):
    """The harness could not do its work; no verdict on Kafka follows from this."""


class WaitTimeout(HarnessError):
    """A condition did not come true in time; the text says what was awaited and what was seen last."""


class NodeFailed(HarnessError):
    """A node did not start or died unasked; the text ends with the last lines of its own log."""


class SupervisorError(HarnessError):
    """The process that owns a cluster refused a request, or cannot be reached."""


class Busy(SupervisorError):
    """What a request is about is under another request's treatment already."""
