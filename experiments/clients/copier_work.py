"""What a copier does in its own process: a member of a group that processes a record by producing a copy of it.

Committed before the copies, each record is copied at most once; after them, at least once; together with them in a transaction, exactly once
(https://kafka.apache.org/documentation/#semantics, KIP-98, KIP-447).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.clients.copying import Copies, CopiesInTransactions
from experiments.clients.member_log import COPY_FAILED
from experiments.clients.member_work import MemberWork


@dataclass(kw_only=True)
class CopierWork(MemberWork):
    """A copier whose copies and commits are each by themselves. Its mapping has what it was told is stored."""

    copies: Copies

    def process(self) -> bool:
        """Copy what is in hand, and note it once all of it is stored."""
        return self._copied() and super().process()

    def _copied(self) -> bool:
        failed = self.copies.copy(self.consumer.in_hand)
        if failed is not None:
            self.log.tell(COPY_FAILED, failed)
        return failed is None


@dataclass(kw_only=True)
class TransactionalCopierWork(CopierWork):
    """A copier whose copies and commits are one transaction. Its mapping has what it was told is committed."""

    copies: CopiesInTransactions

    def process(self) -> bool:
        """Copy what is in hand, in the transaction that commits it too."""
        copied = self._copied()
        if not copied:
            self.copies.abort()
        return copied

    def commit(self, offsets: Mapping[int, int]) -> str | None:
        """Commit the copies and how far it has read; return why that is not committed, and then none of it is."""
        error = self.copies.commit(self.consumer, offsets)
        if error is None:
            self.note()
            return None
        self.copies.abort()
        return str(error)
