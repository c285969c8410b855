"""Faults of the network: isolated nodes or clients, slow or lossy traffic.

`isolation` and `quality` drop or delay packets in the kernel and need network namespaces. `relay`
acts on the clients' connections, and `requests` on chosen messages in them, without root.
`impairment` is what all of them share.
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.trial.faults.network import isolation, quality, relay, requests

KINDS: Final = (*isolation.KINDS, *quality.KINDS, *relay.KINDS, *requests.KINDS)
