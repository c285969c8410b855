"""The member's own process; what it does there is `member_work`'s, and of a copier `copier_work`'s."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

from experiments.clients.child import DONE, say
from experiments.clients.copier_work import CopierWork, TransactionalCopierWork
from experiments.clients.copying import Copies, CopiesInTransactions
from experiments.clients.group_consumer import GroupConsumer
from experiments.clients.member import MemberJob
from experiments.clients.member_log import LEFT, MemberLog
from experiments.clients.member_work import MemberWork
from experiments.clients.reads import ReadsFile


def main(job_path: Path) -> None:
    """Be the member.

    Raises:
        AckbenchError: it could not do its job.
    """
    job = MemberJob.model_validate_json(job_path.read_bytes())
    with ExitStack() as clients:
        _work_of(job, clients).work()
    MemberLog(job.told, job.anchor_ns).tell(LEFT)
    say(DONE)


def _work_of(job: MemberJob, clients: ExitStack) -> MemberWork:
    """Make the member's clients: they end with the context, the consumer first, which gives its partitions back."""
    copies = _copies(job, clients)
    settings = {**job.settings, "enable.partition.eof": "true", "bootstrap.servers": job.bootstrap_servers}
    consumer = GroupConsumer(settings, job.topic, job.partitions, job.token, job.anchor_ns, job.log, job.commit_every_records)
    job.effective.write_text(json.dumps(clients.enter_context(consumer).effective_settings()))
    ledger, log = ReadsFile(job.reads), MemberLog(job.told, job.anchor_ns)
    if isinstance(copies, CopiesInTransactions):
        return TransactionalCopierWork(job=job, consumer=consumer, ledger=ledger, log=log, copies=copies)
    if copies is not None:
        return CopierWork(job=job, consumer=consumer, ledger=ledger, log=log, copies=copies)
    return MemberWork(job=job, consumer=consumer, ledger=ledger, log=log)


def _copies(job: MemberJob, clients: ExitStack) -> Copies | None:
    if job.output is None:
        return None
    settings = {**job.output.settings, "bootstrap.servers": job.bootstrap_servers}
    return clients.enter_context((CopiesInTransactions if job.commit == "within" else Copies)(job, job.output, settings))
