"""Which permission (ACL) a principal lacks, from the error of a client that the cluster refused.

Kafka names the resource that it refuses, and not the operation. Each of ackbench's clients needs
one operation on each resource that can be refused, so the client decides.
"""

from __future__ import annotations

import re
from typing import Final

_PERMISSIONS: Final = "docs/external-clusters.md#permissions"
_TOPIC: Final = r"(?:TOPIC_AUTHORIZATION_FAILED|TopicAuthorizationException)"
_RULES: Final = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), needed)
    for pattern, needed in (
        (rf"cannot create topic .*{_TOPIC}", "Create on topics `ackbench-*`"),
        (rf"cannot delete .*{_TOPIC}", "Delete on topics `ackbench-*`"),
        (rf"(?:producer \d|was not delivered).*{_TOPIC}", "Write on topics `ackbench-*`"),
        (_TOPIC, "Read on topics `ackbench-*`"),
        (r"cannot delete .*GROUP_AUTHORIZATION_FAILED", "Delete on groups `ackbench*`"),
        (r"GROUP_AUTHORIZATION_FAILED|GroupAuthorizationException", "Read on groups `ackbench*`"),
        (
            r"TRANSACTIONAL_ID_AUTHORIZATION_FAILED|TransactionalIdAuthorizationException",
            "Write on transactional ids `ackbench*`",
        ),
    )
)
"""What is refused, and the operation and resource that it needs; the first match counts."""


def missing_permission(text: str) -> str | None:
    """Return a sentence that names operation and resource; `None`: the text is of another error."""
    for pattern, needed in _RULES:
        if pattern.search(text):
            return f"the principal needs {needed} ({_PERMISSIONS})"
    return None
