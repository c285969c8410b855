"""The job of each client of a trial, derived from the trial's plan. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class TrialNames:
    """The names of all that a trial makes in its cluster.

    Names have the sweep's id only in a cluster that others use: groups and transactional ids begin
    with the topic's, and their coordinators, which Kafka chooses by these names, are the same in a
    repeated sweep.
    """

    topic: str
    output: str | None
    """The topic that copiers write to; `None`: there are no copiers."""
    warm_up: str
    """The topic that producers warm up with; the trials of a sweep share it."""
    client_id: str | None
    """The clients' id; `None`: that of their settings."""
    transactional_ids: tuple[str, ...]
    """The producers' ids by their numbers, as with a shared one they fence each other; empty: they
    send without transactions."""

    @classmethod
    def of(cls, spec: TrialSpec) -> TrialNames:
        """Return the names of a planned trial."""
        prefix = external_prefix(spec.sweep_id) if spec.cluster.traits.shared else None
        topic, load = f"{prefix or 'trial-'}{spec.trial_id}", spec.workload
        return cls(
            topic=topic,
            output=f"{topic}-output" if load.copies else None,
            warm_up=f"{prefix or 'ackbench-'}warm-up",
            client_id=prefix and prefix.removesuffix("-"),
            transactional_ids=tuple(
                f"{spec.producer['transactional.id']}-{topic}-{number}"
                for number in range(load.producers if load.transactions else 0)
            ),
        )

    @property
    def topics(self) -> tuple[str, ...]:
        """The trial's own topics."""
        return (self.topic, self.output) if self.output else (self.topic,)

    def of_client(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return a client's settings with its id."""
        return {**settings, CLIENT_ID: self.client_id} if self.client_id else dict(settings)


def producer_jobs(
    spec: TrialSpec, names: TrialNames, servers: str, token: int, folder: Path
) -> Iterator[ProducerJob]:
    """Yield the job of each producer: an equal share of the rate and of the records."""
    load, logging = spec.workload, _more_logging(spec)

    def with_ids(settings: Mapping[str, str], number: int) -> dict[str, str]:
        own, ids = names.of_client({**settings, **logging}), names.transactional_ids
        return {**own, "transactional.id": ids[number]} if ids else own

    for number in range(load.producers):
        yield ProducerJob(
            producer=number,
            client_version=spec.client_version,
            bootstrap_servers=servers,
            topic=names.topic,
            warm_up_topic=names.warm_up,
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


def _more_logging(spec: TrialSpec) -> Mapping[str, str]:
    """Return the setting by which librdkafka logs epoch bumps, unless the experiment sets it."""
    default = REQUIRED_PRODUCER_SETTINGS.items() <= spec.producer.items()
    if default and is_idempotent(spec.producer) and not spec.workload.transactions:
        return IDEMPOTENT_LOGGING
    return {}


def consumer_job(
    spec: TrialSpec, names: TrialNames, servers: str, token: int, folder: Path
) -> ConsumerJob:
    """Return the concurrent consumer's job: to read the topic, or what copiers make of it."""
    text = text_value_format(spec, token)
    return ConsumerJob(
        client_version=spec.client_version,
        bootstrap_servers=servers,
        topic=names.output or names.topic,
        partitions=spec.partitions,
        settings=without_group_settings(names.of_client(spec.consumer)),
        passed=without_group_settings(names.of_client(spec.passed.consumer))
        if spec.passed
        else None,
        record_serving_brokers=spec.workload.record_serving_brokers,
        warm_up_records=text.warm_up_records if text else 0,
        identity=spec.workload.identity,
        token=token,
        folder=folder,
    )


def group_jobs(
    spec: TrialSpec, names: TrialNames, servers: str, token: int, folder: Path
) -> Iterator[GroupJob]:
    """Yield the job of each consumer group: to read the topic, or to copy it."""
    load, text = spec.workload.of_members, text_value_format(spec, token)
    settings = names.of_client(spec.passed.consumer if spec.passed else spec.consumer)
    output, client = _copy_target(spec, names), client_choice(spec)
    for number in range(1, load.groups + 1) if load else ():
        yield GroupJob(
            group=f"{names.topic}-group-{number}",
            number=number,
            load=load,
            client=spec.client,
            limits_polls=client.knows_of_consumer(MAX_POLL_RECORDS),
            client_version=spec.client_version,
            warm_up_records=text.warm_up_records if text else 0,
            bootstrap_servers=servers,
            topic=names.topic,
            partitions=spec.partitions,
            settings=settings,
            token=token,
            folder=folder,
            output=output,
        )


def _copy_target(spec: TrialSpec, names: TrialNames) -> CopyTarget | None:
    load = spec.workload
    if names.output is None:
        return None
    return CopyTarget(
        topic=names.output,
        partitions=spec.partitions,
        settings=copier_settings(
            names.of_client(spec.passed.producer if spec.passed else spec.producer),
            f"{COPIER_TRANSACTIONAL_ID}-{names.topic}" if load.commits == "within" else None,
        ),
        record_size_bytes=load.record_size_bytes,
        keys=load.keys,
    )


def final_read_settings(spec: TrialSpec, names: TrialNames) -> dict[str, str]:
    """Return the consumer settings of the final read.

    It always reads with the installed librdkafka. So of another client's settings, or version's,
    only the isolation level holds.
    """
    if spec.client == FINAL_READER and not spec.passed and spec.client_version is None:
        return names.of_client(spec.consumer)
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
