"""How well a producer kept to its schedule, read off its ledger."""

from __future__ import annotations

import numpy as np

from experiments.clients import librdkafka
from experiments.clients.attempts import AttemptsFile
from experiments.clients.producer_job import ProducerJob
from experiments.ledger.record import ProducerSummary


def summary_of(job: ProducerJob, ledger: AttemptsFile, begin: int) -> ProducerSummary:
    """Say how it went; what was due while no process was there says nothing of how well a process keeps to its schedule."""
    own = ledger.rows[begin:]
    tried = own[own["sent_ns"] > 0]
    on_time = tried[tried["intended_ns"] >= tried["sent_ns"][0]] if job.life > 0 and tried.size else tried
    lateness_us = (on_time["sent_ns"] - on_time["intended_ns"]) / 1000
    p50, p99, highest = np.percentile(lateness_us, [50, 99, 100], method="inverted_cdf") if on_time.size else (None, None, None)
    return ProducerSummary(
        producer=job.producer,
        records=int(np.count_nonzero(ledger.rows["state"])),
        version=librdkafka.version(),
        lateness_us_p50=p50,
        lateness_us_p99=p99,
        lateness_us_max=highest,
    )
