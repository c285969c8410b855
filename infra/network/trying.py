"""Whether this machine's kernel can do what faults of the network need: tried for real, in a namespace that is thrown away."""

from __future__ import annotations

import subprocess
from typing import Final

_CABLE: Final = "ip link add tried type veth peer name other; ip link set tried up; ip link add bridge type bridge; "
_RULE: Final = "tcp sport 1 numgen random mod 2 < 1 meta priority set 1:1 counter drop"
_TABLE: Final = f"table inet tried {{ chain output {{ type filter hook output priority 0; {_RULE}; }}; }}"
RULES: Final = f"{_CABLE} nft '{_TABLE}'"
"""Dropping packets, all or some, and counting them."""
RATE: Final = f"{_CABLE} tc qdisc add dev tried root handle 1: htb default 0; tc class add dev tried parent 1: classid 1:1 htb rate 1mbit quantum 65536"
"""Sending no faster than a rate."""
DELAY: Final = f"{_CABLE} tc qdisc add dev tried root netem delay 1ms"
"""Sending late."""
_TIMEOUT_S: Final = 20.0


def refused(commands: str) -> str | None:
    """Return in what words the kernel refuses to do it, on one line; `None`: it can."""
    try:
        ran = subprocess.run(["unshare", "--net", "sh", "-ec", commands], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"a trial was not done after {_TIMEOUT_S:g} s"
    if ran.returncode == 0:
        return None
    return next((line.strip() for line in (ran.stderr + ran.stdout).splitlines() if line.strip()), f"a trial ended with status {ran.returncode}")
