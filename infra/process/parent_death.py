"""Executes a command that the kernel kills when its parent exits.

Run as a script: `python -I -S parent_death.py <parent pid> <command>...`. A script instead of a
`preexec_fn`, because code between fork and exec is unsafe in a process with threads
(https://docs.python.org/3/library/subprocess.html#subprocess.Popen). exec(3) keeps the pid, so
nothing shows that the script was there. It imports the standard library only and needs no site
packages.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    """Request SIGKILL at the parent's exit, check that it still runs, and exec the command."""
    parent_pid, command = int(sys.argv[1]), sys.argv[2:]
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent_pid:
        sys.exit(f"the parent process {parent_pid} exited before {command[0]} started")
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
