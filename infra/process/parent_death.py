"""Becomes another program that the kernel kills when its parent ends. Run as a script: `dying.py <parent pid> <command>...`.

A script and no `preexec_fn`, since code between fork and exec is unsafe in a process with threads
(https://docs.python.org/3/library/subprocess.html#subprocess.Popen). It keeps the pid, so nothing shows that it was there.
It imports the standard library alone and needs no site packages (`python -I -S`).
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    """Ask for SIGKILL at the parent's end, make sure that it has not ended already, and exec the command."""
    parent_pid, command = int(sys.argv[1]), sys.argv[2:]
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent_pid:
        sys.exit(f"the parent {parent_pid} ended before {command[0]} began")
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
