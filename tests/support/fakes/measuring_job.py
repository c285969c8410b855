"""A fake Spark job: prints its pid and a child's, and ends both on SIGINT.

With `ignore-sigint` it ignores SIGINT.
"""

import os
import signal
import subprocess
import sys

if __name__ == "__main__":
    # Blocked, so that sigwait receives it even if it arrives earlier.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    with subprocess.Popen(["sleep", "1000"]) as child:
        os.write(1, f"pids {os.getpid()} {child.pid}\n".encode())
        signal.sigwait({signal.SIGUSR1} if "ignore-sigint" in sys.argv else {signal.SIGINT})
        os.write(1, b"received SIGINT\n")
        child.kill()
