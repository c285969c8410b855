"""The job of each client of a trial, derived from the trial's plan. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ackbench.experiments.sweep.client_kinds import FINAL_READER, traits_of
from ackbench.experiments.sweep.plan import TrialSpec, external_prefix
from ackbench.experiments.trial.clients.consumer.process import ConsumerJob
from ackbench.experiments.trial.clients.group.jobs import CopyTarget, GroupJob
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.record.layout import (
    TextValueFormat,
    trial_tag,
    warm_up_records,
)
from ackbench.experiments.trial.clients.settings.group_members import (
    MAX_POLL_RECORDS,
    without_group_settings,
)
from ackbench.experiments.trial.clients.settings.kinds import client_choice
from ackbench.experiments.trial.clients.settings.librdkafka import (
    IDEMPOTENT_LOGGING,
    REQUIRED_PRODUCER_SETTINGS,
    copier_settings,
    is_idempotent,
)

CLIENT_ID: Final = "client.id"
COPIER_TRANSACTIONAL_ID: Final = "ackbench-copier"
"""Prefix of a copier's `transactional.id`; the trial's topic and the copier's number follow."""
ISOLATION_LEVEL: Final = "isolation.level"


def topic_name(spec: TrialSpec) -> str:
    """Return the name of the trial's topic.

    It has the sweep's id only in a cluster that others use: groups and transactional ids begin with
    it, and their coordinators, which Kafka chooses by these names, are the same in a repeated
    sweep.
    """
    if spec.cluster.traits.shared:
        return f"{external_prefix(spec.sweep_id)}{spec.trial_id}"
    return f"trial-{spec.trial_id}"


def warm_up_topic(spec: TrialSpec) -> str:
    """Return the name of the topic that producers warm up with; the trials of a sweep share it."""
    prefix = external_prefix(spec.sweep_id) if spec.cluster.traits.shared else "ackbench-"
    return f"{prefix}warm-up"


def output_topic_name(spec: TrialSpec) -> str | None:
    """Return the name of the topic that copiers write to; `None`: there are no copiers."""
    return f"{topic_name(spec)}-output" if spec.workload.copies else None


def producer_jobs(
    spec: TrialSpec, servers: str, topic: str, token: int, folder: Path
) -> Iterator[ProducerJob]:
    """Yield the job of each producer: an equal share of the rate and of the records."""
    load, ids = spec.workload, transactional_ids(spec, topic)

    def with_ids(settings: Mapping[str, str], number: int) -> dict[str, str]:
        own = _with_client_id(spec, {**settings, **_more_logging(spec)})
        return {**own, "transactional.id": ids[number]} if ids else own

    for number in range(load.producers):
        yield ProducerJob(
            producer=number,
            client_version=spec.client_version,
            bootstrap_servers=servers,
            topic=topic,
            warm_up_topic=warm_up_topic(spec),
            settings=with_ids(spec.producer, number),
            passed=with_ids(spec.passed.producer, number) if spec.passed else None,
            create_time=spec.topic.get("message.timestamp.type", "CreateTime") == "CreateTime",
            records=load.records // load.producers + (number < load.records % load.producers),
            rate_records_per_s=load.rate_records_per_s / load.producers,
            record_size_bytes=load.record_size_bytes,
            keys=load.keys,
            round_robin_partitions=spec.partitions if load.keys.round_robin else 0,
            headers=load.headers,
            identity=load.identity,
            value=load.copies.value if load.copies else None,
            record_serving_brokers=load.record_serving_brokers,
            transactions=load.transactions,
            token=token,
            folder=folder,
        )


def transactional_ids(spec: TrialSpec, topic: str) -> tuple[str, ...]:
    """Return the producers' ids by their numbers; with a shared one they fence each other.

    Empty if they send without transactions.
    """
    if not spec.workload.transactions:
        return ()
    prefix = spec.producer["transactional.id"]
    return tuple(f"{prefix}-{topic}-{number}" for number in range(spec.workload.producers))


def _with_client_id(spec: TrialSpec, settings: Mapping[str, str]) -> dict[str, str]:
    """Return a client's settings; in a cluster that others use its id names the sweep."""
    if not spec.cluster.traits.shared:
        return dict(settings)
    return {**settings, CLIENT_ID: external_prefix(spec.sweep_id).removesuffix("-")}


def _more_logging(spec: TrialSpec) -> Mapping[str, str]:
    """Return the setting by which librdkafka logs epoch bumps, unless the experiment sets it."""
    default = REQUIRED_PRODUCER_SETTINGS.items() <= spec.producer.items()
    if default and is_idempotent(spec.producer) and not spec.workload.transactions:
        return IDEMPOTENT_LOGGING
    return {}


def consumer_job(
    spec: TrialSpec, servers: str, topic: str, token: int, folder: Path
) -> ConsumerJob:
    """Return the concurrent consumer's job: to read the topic, or what copiers make of it."""
    text = text_value_format(spec, token)
    return ConsumerJob(
        client_version=spec.client_version,
        bootstrap_servers=servers,
        topic=output_topic_name(spec) or topic,
        partitions=spec.partitions,
        settings=without_group_settings(_with_client_id(spec, spec.consumer)),
        passed=without_group_settings(_with_client_id(spec, spec.passed.consumer))
        if spec.passed
        else None,
        record_serving_brokers=spec.workload.record_serving_brokers,
        warm_up_records=text.warm_up_records if text else 0,
        identity=spec.workload.identity,
        token=token,
        folder=folder,
    )


def group_jobs(
    spec: TrialSpec, servers: str, topic: str, token: int, folder: Path
) -> Iterator[GroupJob]:
    """Yield the job of each consumer group: to read the topic, or to copy it."""
    load = spec.workload.of_members
    text = text_value_format(spec, token)
    for number in range(1, load.groups + 1) if load else ():
        yield GroupJob(
            group=f"{topic}-group-{number}",
            number=number,
            load=load,
            client=spec.client,
            limits_polls=client_choice(spec).knows_of_consumer(MAX_POLL_RECORDS),
            client_version=spec.client_version,
            warm_up_records=text.warm_up_records if text else 0,
            bootstrap_servers=servers,
            topic=topic,
            partitions=spec.partitions,
            settings=_with_client_id(spec, spec.passed.consumer if spec.passed else spec.consumer),
            token=token,
            folder=folder,
            output=_copy_target(spec, topic),
        )


def _copy_target(spec: TrialSpec, topic: str) -> CopyTarget | None:
    load, output_topic = spec.workload, output_topic_name(spec)
    if output_topic is None:
        return None
    return CopyTarget(
        topic=output_topic,
        partitions=spec.partitions,
        settings=copier_settings(
            _with_client_id(spec, spec.passed.producer if spec.passed else spec.producer),
            f"{COPIER_TRANSACTIONAL_ID}-{topic}" if load.commits == "within" else None,
        ),
        record_size_bytes=load.record_size_bytes,
        keys=load.keys,
    )


def final_read_settings(spec: TrialSpec) -> dict[str, str]:
    """Return the consumer settings of the final read.

    It always reads with the installed librdkafka. So of another client's settings, or version's,
    only the isolation level holds.
    """
    if spec.client == FINAL_READER and not spec.passed and spec.client_version is None:
        return _with_client_id(spec, spec.consumer)
    return (
        {ISOLATION_LEVEL: spec.consumer[ISOLATION_LEVEL]}
        if ISOLATION_LEVEL in spec.consumer
        else {}
    )


def text_value_format(spec: TrialSpec, token: int) -> TextValueFormat | None:
    """Return the format of the trial's text values; `None`: its values are binary."""
    rate = spec.workload.rate_records_per_s / spec.workload.producers
    if not traits_of(spec.client).reports_in_text:
        return None
    return TextValueFormat(trial_tag(token), warm_up_records(rate))
