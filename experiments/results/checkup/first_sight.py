"""The few sentences that an expert says first of settings of Kafka, the weightiest first. Pure.

Each `Sight` is one thing that can be seen, with its source. A new one is one entry of `SIGHTS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.messages.phrases import format_count, list_some
from ackbench.experiments.planning.clients.rules import canonical_acks
from ackbench.experiments.results.checkup.configuration import Configuration
from ackbench.experiments.results.checkup.files.found import FoundFile, FoundNode
from ackbench.experiments.trial.clients.settings.kinds import ACKS

_TMP: Final = ("/tmp", "/var/tmp")  # noqa: S108 - where a log should not be


_FEW_RETRIES: Final = 10


@dataclass(frozen=True)
class Seen:
    """Settings, and the files that they are from."""

    configuration: Configuration
    files: Sequence[FoundFile]

    @property
    def brokers(self) -> list[FoundNode]:
        """The brokers that the files name."""
        return [node for file in self.files for node in file.nodes if "broker" in node.roles]

    @property
    def has_brokers(self) -> bool:
        """Whether the files are about brokers."""
        return bool(self.brokers or self.configuration.broker)

    @property
    def is_javas_client(self) -> bool:
        """Whether the client is Kafka's own, not one that is judged like it."""
        others = any(file.client and file.format != "Logstash" for file in self.files)
        return self.configuration.client == "java" and not others

    def broker(self, name: str) -> str:
        """Return a property of the brokers, by default Kafka's."""
        return self.configuration.effective_broker().get(name, "")

    def is_given(self, name: str) -> bool:
        """Return whether the brokers' property is set, not Kafka's default."""
        return name in self.configuration.broker


@dataclass(frozen=True)
class Sight:
    """One thing that an expert sees at once."""

    source: str
    """Where it is documented."""
    sentence: Callable[[Seen], str | None]
    """Returns what is seen, `None`: it is not so."""


def first_sight(configuration: Configuration, files: Sequence[FoundFile]) -> Iterator[str]:
    """Yield what an expert sees at once, each with its source.

    Args:
        configuration: the settings.
        files: where they are from.
    """
    seen = Seen(configuration, files)
    found = [sentence for file in files for sentence in file.sights]
    for sight in SIGHTS:
        sentence = sight.sentence(seen)
        if sentence:
            found.append(f"{sentence} [{sight.source}]")
    yield from found
    if not found and (sound := _sound(seen)):
        yield f"{sound} [min.insync.replicas]"


def _one_volume(seen: Seen) -> str | None:
    brokers = sum(node.count for node in seen.brokers)
    volumes = Counter(volume for node in seen.brokers for volume in node.volumes or ())
    shared = [one for one, times in volumes.items() if times == len(seen.brokers)]
    each_has_its_own = any(node.count > 1 and not node.share_volumes for node in seen.brokers)
    if brokers > 1 and shared and not each_has_its_own:
        return (
            f"{format_count(brokers, 'broker')} share the volume {shared[0]}: one disk holds every "
            "replica, and a second broker finds the log directory locked"
        )
    return None


def _not_kept(seen: Seen) -> str | None:
    directories = seen.configuration.broker.get("log.dirs", "").split(",")
    in_tmp = [one for one in directories if one.strip().startswith(_TMP)]
    if in_tmp:
        return f"log.dirs is {in_tmp[0]}: a restart of the machine may delete every record"
    ephemeral = [
        node
        for node in seen.brokers
        if node.volumes is not None
        and (not node.volumes or any(_is_ephemeral(one) for one in node.volumes))
    ]
    if ephemeral and len(ephemeral) == len(seen.brokers):
        return (
            f"{list_some([node.name for node in ephemeral], 3)} keep"
            f"{'s' if len(ephemeral) == 1 and ephemeral[0].count == 1 else ''} the log without a "
            "volume: it is gone with the container"
        )
    return None


def _is_ephemeral(volume: str) -> bool:
    return volume.startswith("ephemeral") or "emptyDir" in volume


def _one_broker(seen: Seen) -> str | None:
    if seen.has_brokers and seen.configuration.nodes == 1 and seen.brokers:
        return (
            "one broker: every partition is unavailable while it is down, and its disk has the "
            "only copy"
        )
    return None


def _two_controllers(seen: Seen) -> str | None:
    voters = sum(
        node.count for file in seen.files for node in file.nodes if "controller" in node.roles
    )
    if voters == 2:  # noqa: PLR2004 - a majority of two is both
        return "two controllers: the quorum needs both, so either one's failure stops it"
    return None


def _offsets(seen: Seen) -> str | None:
    factor = seen.broker("offsets.topic.replication.factor")
    if seen.has_brokers and factor == "1" and seen.configuration.nodes > 1:
        return "__consumer_offsets has one replica: groups stop with one broker"
    given = seen.is_given("offsets.topic.replication.factor")
    if given and factor.isdecimal() and seen.brokers and int(factor) > seen.configuration.nodes:
        return (
            f"offsets.topic.replication.factor is {factor} with "
            f"{format_count(seen.configuration.nodes, 'broker')}: __consumer_offsets cannot be "
            "made, and no group can commit"
        )
    return None


def _transactions(seen: Seen) -> str | None:
    factor = seen.broker("transaction.state.log.replication.factor")
    if seen.is_given("transaction.state.log.replication.factor") and factor == "1":
        if seen.configuration.nodes == 1:
            return None
        return "__transaction_state has one replica: transactions stop with one broker"
    return None


def _made_topics(seen: Seen) -> str | None:
    made = seen.broker("auto.create.topics.enable") == "true"
    if seen.has_brokers and made and seen.broker("default.replication.factor") == "1":
        if seen.configuration.nodes == 1:
            return None
        return (
            "topics that are made by their first use have one replica "
            "(auto.create.topics.enable, default.replication.factor=1)"
        )
    return None


def _unclean(seen: Seen) -> str | None:
    topic = seen.configuration.effective_topic()
    if topic.get("unclean.leader.election.enable") == "true":
        return (
            "unclean.leader.election.enable=true: a replica that lacks acknowledged records may "
            "become the leader"
        )
    return None


def _capped(seen: Seen) -> str | None:
    least = seen.configuration.effective_topic().get("min.insync.replicas", "")
    replicas = seen.configuration.replicas
    known = seen.configuration.replication_factor or seen.is_given("default.replication.factor")
    if known and least.isdecimal() and int(least) > replicas:
        return (
            f"min.insync.replicas={least} with {format_count(replicas, 'replica')} counts as "
            f"{replicas}: it protects nothing more"
        )
    if known and least.isdecimal() and int(least) == replicas > 1:
        return (
            f"min.insync.replicas={least} of {replicas} replicas: with acks=all, any broker that "
            "is down stops writes"
        )
    return None


def _one_in_sync(seen: Seen) -> str | None:
    least = seen.configuration.effective_topic().get("min.insync.replicas")
    if seen.has_brokers and least == "1" and seen.configuration.nodes > 1:
        return (
            "min.insync.replicas=1: acks=all means the leader alone once the other replicas have "
            "left the ISR"
        )
    return None


def _acks(seen: Seen) -> str | None:
    given = seen.configuration.producer
    acks = seen.configuration.effective_producer()["acks"]
    if acks not in {"0", "1"}:
        return None
    loses = {
        "0": "acks=0: a record counts as sent before any broker has it",
        "1": "acks=1: what only the leader has is lost when another replica becomes the leader",
    }[acks]
    if seen.is_javas_client and "enable.idempotence" not in given:
        return f"{loses}; idempotence is off because acks={acks} was set (KIP-679)"
    return loses


def _no_retries(seen: Seen) -> str | None:
    given = seen.configuration.producer
    if given.get("retries") == "0":
        idempotence = (
            ", and idempotence is off because it was set (KIP-679)"
            if seen.is_javas_client and "enable.idempotence" not in given
            else ""
        )
        return f"retries=0: a send fails at the first change of the leader{idempotence}"
    retries = given.get("retries", "")
    if retries.isdecimal() and int(retries) < _FEW_RETRIES:
        backoff_ms = seen.configuration.effective_producer().get("retry.backoff.ms", "100")
        return (
            f"retries={retries}, {backoff_ms} ms apart: a send may fail before a new leader is "
            "elected"
        )
    return None


def _not_idempotent(seen: Seen) -> str | None:
    effective = seen.configuration.effective_producer()
    asked = seen.configuration.producer
    if (
        effective.get("enable.idempotence") == "false"
        and canonical_acks(effective[ACKS]) == "all"
        and asked
        and asked.get("retries") != "0"
    ):
        return "the producer is not idempotent: a batch that is resent may be a duplicate"
    return None


def _auto_commit(seen: Seen) -> str | None:
    consumer = seen.configuration.consumer
    if consumer is None:
        return None
    effective = seen.configuration.effective_consumer()
    if effective.get("enable.auto.commit") != "true":
        return None
    when = {
        "java": "in poll, for the records of the poll before",
        "librdkafka": "for records as soon as the application has them, processed or not",
    }.get(seen.configuration.client, "by time, processed or not")
    return f"enable.auto.commit: offsets are committed {when}"


def _latest(seen: Seen) -> str | None:
    consumer = seen.configuration.consumer
    if consumer is not None and consumer.get("auto.offset.reset") == "latest":
        return "auto.offset.reset=latest: a group without a committed offset skips what is there"
    return None


def _retention(seen: Seen) -> str | None:
    given = {**seen.configuration.broker, **seen.configuration.topic}
    for name, unit_ms in _RETENTION.items():
        value = given.get(name, "")
        if value.isdecimal() and 0 < int(value) * unit_ms < _DAY_MS:
            return f"{name}={value}: a consumer that is behind for longer misses records for good"
    return None


_DAY_MS: Final = 86_400_000
_RETENTION: Final = {
    "retention.ms": 1,
    "log.retention.ms": 1,
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
}
"""Each with its unit; the first one that is set counts, as in Kafka."""


def _sound(seen: Seen) -> str | None:
    """Return what settings without a weakness do."""
    least = seen.configuration.effective_topic().get("min.insync.replicas", "")
    replicas = seen.configuration.replicas
    known = seen.configuration.replication_factor or seen.is_given("default.replication.factor")
    if known and least.isdecimal() and 1 < int(least) < replicas:
        spare = replicas - int(least)
        return (
            f"{format_count(replicas, 'replica')}, of which {least} must be in sync: with acks=all "
            f"{format_count(spare, 'broker')} may fail without loss, and {spare + 1} stop writes"
        )
    if seen.configuration.consumer is not None and not seen.configuration.producer:
        return (
            "the application commits its offsets itself: what it has processed since its last "
            "commit is processed again after a crash"
        )
    effective = seen.configuration.effective_producer()
    idempotent = "with" if effective.get("enable.idempotence") == "true" else "without"
    return (
        f"acks={effective['acks']} {idempotent} idempotence: the topic's replicas and "
        "min.insync.replicas decide what is lost and when writes stop"
    )


SIGHTS: Final = (
    Sight("kafka.apache.org, log.dirs", _one_volume),
    Sight("kafka.apache.org, log.dirs", _not_kept),
    Sight("kafka.apache.org, replication", _one_broker),
    Sight("KIP-595", _two_controllers),
    Sight("design_uncleanleader", _unclean),
    Sight("offsets.topic.replication.factor", _offsets),
    Sight("transaction.state.log.replication.factor", _transactions),
    Sight("default.replication.factor", _made_topics),
    Sight("log.retention.ms", _retention),
    Sight("KAFKA-15583", _capped),
    Sight("min.insync.replicas", _one_in_sync),
    Sight("producerconfigs_acks", _acks),
    Sight("producerconfigs_retries", _no_retries),
    Sight("producerconfigs_enable.idempotence", _not_idempotent),
    Sight("consumerconfigs_enable.auto.commit", _auto_commit),
    Sight("consumerconfigs_auto.offset.reset", _latest),
)
"""In the order of what they cost."""
