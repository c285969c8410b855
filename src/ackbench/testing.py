"""Tests of your own application against real brokers that fail: a plug-in of pytest.

```python
def test_no_order_is_lost(kafka_cluster):
    kafka_cluster.create_topic("orders", partitions=3)
    ...                                     # produce with your application
    kafka_cluster.kill_leader("orders", 0)
    ...                                     # it goes on
    kafka_cluster.heal()
```

`kafka_cluster` is one cluster of three brokers for all tests of a session, healed after each test.
`start_cluster` starts one of your own. pytest finds the fixture once ackbench is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ackbench.experiments.commands.api.hand_cluster import HandCluster, start_cluster

__all__ = ["HandCluster", "kafka_cluster", "start_cluster"]


def __getattr__(name: str) -> object:
    """Import what a user asks for: pytest imports this module in every run.

    Args:
        name: of `__all__`.

    Raises:
        AttributeError: this module has no such name.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ackbench.experiments.commands.api import hand_cluster

    return vars(hand_cluster)[name]


@pytest.fixture(scope="session")
def _kafka_cluster_of_session() -> Iterator[HandCluster]:
    from ackbench.experiments.commands.api.hand_cluster import start_cluster

    with start_cluster() as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(_kafka_cluster_of_session: HandCluster) -> Iterator[HandCluster]:
    """Yield a cluster of three brokers, healthy; what a test breaks is healed after it."""
    yield _kafka_cluster_of_session
    _kafka_cluster_of_session.heal()
