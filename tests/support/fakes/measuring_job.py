"""A fake Spark job: prints its pid and waits for SIGINT, or with `ignore-sigint` ignores it."""

import os
import signal
import sys

if __name__ == "__main__":
    # Blocked, so that sigwait receives it even if it arrives earlier.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.write(1, f"pid {os.getpid()}\n".encode())
    signal.sigwait({signal.SIGUSR1} if "ignore-sigint" in sys.argv else {signal.SIGINT})
    os.write(1, b"received SIGINT\n")
