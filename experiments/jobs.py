"""What each of a trial's clients is to do, from its plan. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from experiments.clients.group import GroupJob
from experiments.clients.group_settings import alone
from experiments.clients.java_value import TextValues, run_in_records, tag_of
from experiments.clients.member import Output
from experiments.clients.producer_job import ProducerJob
from experiments.clients.reader import ReaderJob
from experiments.clients.settings import copier_settings
from experiments.ledger.record import Keying
from experiments.plan import TrialSpec
from experiments.reading_back import ISOLATION

WARM_UP_TOPIC: Final = "ackbench-warm-up"
COPIERS_ID: Final = "ackbench-copier"
"""A copier's `transactional.id`: its trial's topic and its own number stand behind it."""


def topic_of(spec: TrialSpec) -> str:
    """Return the name of the trial's own topic."""
    return f"trial-{spec.trial_id}"


def output_of(spec: TrialSpec) -> str | None:
    """Return the name of the topic that is copied to; `None`: nothing is copied."""
    return f"{topic_of(spec)}-output" if spec.workload.kind == "copy" else None


def producer_jobs(spec: TrialSpec, servers: str, topic: str, token: int, folder: Path) -> Iterator[ProducerJob]:
    """Share the schedule out: each producer has its part of the rate and of the records."""
    load = spec.workload
    for number in range(load.producers):
        yield ProducerJob(
            producer=number,
            bootstrap_servers=servers,
            topic=topic,
            warm_up_topic=WARM_UP_TOPIC,
            settings=_settings(spec.producer, spec, f"{topic}-{number}"),
            passed=_settings(spec.passed.producer, spec, f"{topic}-{number}") if spec.passed else None,
            create_time=spec.topic.get("message.timestamp.type", "CreateTime") == "CreateTime",
            records=load.records // load.producers + (number < load.records % load.producers),
            rate_records_per_s=load.rate_records_per_s / load.producers,
            record_size_bytes=load.record_size_bytes,
            keys=load.keys,
            pairs=load.pairs,
            pair_apart_records=load.pair_apart_records,
            hot_key_share=load.hot_key_share,
            round_robin_partitions=spec.partitions if load.round_robin else 0,
            headers=load.headers,
            tells_serving=load.tells_serving,
            transaction_records=load.transaction_records,
            abort_every=load.abort_every,
            token=token,
            folder=folder,
        )


def reading_of(spec: TrialSpec, token: int) -> tuple[dict[str, str], TextValues | None]:
    """Return the settings of the final read, and how the values look that it finds; it is librdkafka that reads, whoever wrote."""
    isolation = {ISOLATION: spec.consumer[ISOLATION]} if ISOLATION in spec.consumer else {}
    settings = spec.consumer if spec.client == "librdkafka" and not spec.passed else isolation
    return settings, text_values_of(spec, token)


def text_values_of(spec: TrialSpec, token: int) -> TextValues | None:
    """Return how the trial's values look where they are text."""
    rate = spec.workload.rate_records_per_s / spec.workload.producers
    return TextValues(tag_of(token), run_in_records(rate)) if spec.client == "java" else None


def _settings(given: Mapping[str, str], spec: TrialSpec, name: str) -> dict[str, str]:
    """Return what one producer is given: a `transactional.id` is its own, or it would fence the others."""
    ids = {"transactional.id": f"{spec.producer['transactional.id']}-{name}"} if spec.workload.transaction_records else {}
    return {**given, **ids}


def reader_job(spec: TrialSpec, servers: str, topic: str, token: int, folder: Path) -> ReaderJob:
    """Return what the reader along is to do: what is copied is read where it is copied to."""
    text = text_values_of(spec, token)
    return ReaderJob(
        bootstrap_servers=servers,
        topic=output_of(spec) or topic,
        partitions=spec.partitions,
        settings=alone(spec.consumer),
        passed=alone(spec.passed.consumer) if spec.passed else None,
        tells_serving=spec.workload.tells_serving,
        run_in_records=text.run_in_records if text else 0,
        token=token,
        folder=folder,
    )


def group_jobs(spec: TrialSpec, servers: str, topic: str, token: int, folder: Path) -> Iterator[GroupJob]:
    """Yield what each consumer group is to do: read, or copy."""
    load = spec.workload
    for number in range(1, load.groups + 1) if load.members else ():
        yield _group_job(spec, number, servers, topic, token, folder)


def _group_job(spec: TrialSpec, number: int, servers: str, topic: str, token: int, folder: Path) -> GroupJob:  # noqa: PLR0913, PLR0917 - as its neighbours
    load = spec.workload
    return GroupJob(
        group=f"{topic}-group-{number}",
        number=number,
        groups=load.groups,
        members=load.members,
        slow_members=load.slow_members,
        slow_records_per_s=load.slow_records_per_s,
        out_of_range=load.out_of_range,
        commit=load.commits,
        commit_every_records=load.commit_every_records,
        bootstrap_servers=servers,
        topic=topic,
        partitions=spec.partitions,
        settings=spec.passed.consumer if spec.passed else spec.consumer,
        token=token,
        folder=folder,
        output=_output(spec, topic),
    )


def _output(spec: TrialSpec, topic: str) -> Output | None:
    load, name = spec.workload, output_of(spec)
    if name is None:
        return None
    return Output(
        topic=name,
        partitions=spec.partitions,
        settings=copier_settings(spec.passed.producer if spec.passed else spec.producer, f"{COPIERS_ID}-{topic}" if load.commits == "within" else None),
        record_size_bytes=load.record_size_bytes,
        keying=Keying(keys=load.keys, pairs=load.pairs, pair_apart_records=load.pair_apart_records, hot_key_share=load.hot_key_share),
    )
