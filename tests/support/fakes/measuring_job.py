"""Stands in for the measuring job: tells that it runs, and by what it was asked to end; `deaf` is one that does not listen."""

import os
import signal
import sys

if __name__ == "__main__":
    signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGINT}
    )  # so that it is heard whenever it comes
    os.write(1, f"pid {os.getpid()}\n".encode())
    signal.sigwait({signal.SIGUSR1} if "deaf" in sys.argv else {signal.SIGINT})
    os.write(1, b"asked to end\n")
