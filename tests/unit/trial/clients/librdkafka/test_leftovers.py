"""Groups that a sweep leaves in an external cluster, with an admin client in memory."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin._group import ListConsumerGroupsResult

from ackbench.experiments.trial.clients.librdkafka import leftovers
from ackbench.infra.errors import WaitTimeout


class Admin:
    """Refuses to delete a group the first times, with these errors."""

    def __init__(self, **errors: Sequence[int]) -> None:
        self.errors = {name: list(codes) for name, codes in errors.items()}
        self.asked: list[list[str]] = []

    def delete(self, names: Sequence[str]) -> dict[str, Future[Any]]:
        """Answer for each group."""
        self.asked.append(list(names))
        answers = {}
        for name in names:
            answers[name] = Future[Any]()
            if self.errors[name]:
                error = KafkaException(KafkaError(self.errors[name].pop(0)))
                answers[name].set_exception(error)
            else:
                answers[name].set_result(None)
        return answers


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is repeated without a pause."""
    monkeypatch.setattr(leftovers, "_RETRY_S", 0.001)


@pytest.fixture
def soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """What never happens is not waited for as long as with a real cluster."""
    monkeypatch.setattr(leftovers, "_SESSION_S", 0.2)
    monkeypatch.setattr(leftovers, "_LOOKS_S", 0.5)


def deleted(admin: Admin) -> dict[str, str]:
    """Delete the groups and return those that stay."""
    return leftovers._delete(sorted(admin.errors), admin.delete)


def test_a_group_with_a_killed_member_is_deleted_once_its_session_has_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Only that group is asked for again; one that is gone is no error. The wait is said."""
    full = KafkaError.NON_EMPTY_GROUP
    admin = Admin(a=[full, full], b=[], c=[KafkaError.GROUP_ID_NOT_FOUND])
    assert deleted(admin) == {}
    assert admin.asked == [["a", "b", "c"], ["a"], ["a"]]
    assert "waiting up to 60 s for Kafka to delete them: cannot delete a: " in caplog.text


def test_a_group_that_may_not_be_deleted_is_not_waited_for() -> None:
    """Its reason is kept."""
    admin = Admin(a=[KafkaError.GROUP_AUTHORIZATION_FAILED])
    stays = deleted(admin)
    assert "GROUP_AUTHORIZATION_FAILED" in stays["a"]
    assert len(admin.asked) == 1


@pytest.mark.usefixtures("soon_over")
def test_a_group_that_keeps_its_members_stays_with_the_reason() -> None:
    """Another application may have joined it."""
    admin = Admin(a=[KafkaError.NON_EMPTY_GROUP] * 10_000)
    assert "NON_EMPTY_GROUP" in deleted(admin)["a"]


def test_a_connection_that_breaks_is_made_again() -> None:
    """A broker ends connections whose token has expired (KIP-368)."""
    admin = Admin(a=[KafkaError._TRANSPORT])
    assert deleted(admin) == {}
    assert admin.asked == [["a"], ["a"]]


class Cluster:
    """Topics without groups; a deleted topic is made again this many times."""

    def __init__(self, topic: str = "", again: float = 0, *, lists_groups: bool = True) -> None:
        self.topics, self.again, self.lists_groups = {topic} - {""}, again, lists_groups

    def list_topics(self, timeout: float) -> SimpleNamespace:
        """Return the topics that there are."""
        del timeout
        return SimpleNamespace(topics=dict.fromkeys(self.topics))

    def list_consumer_groups(self, request_timeout: float) -> Future[ListConsumerGroupsResult]:
        """Return no groups, or that a broker does not answer."""
        del request_timeout
        unknown: list[Exception] = [KafkaException(KafkaError(KafkaError._TIMED_OUT))]
        listed = Future[ListConsumerGroupsResult]()
        listed.set_result(ListConsumerGroupsResult([], [] if self.lists_groups else unknown))
        return listed

    def delete_topics(self, names: Sequence[str], **_: float) -> dict[str, Future[Any]]:
        """Delete the topics, which a late request for metadata may make again."""
        answers = {name: Future[Any]() for name in names}
        for answer in answers.values():
            answer.set_result(None)
        if self.again:
            self.again -= 1
        else:
            self.topics -= set(names)
        return answers

    def delete_consumer_groups(self, names: Sequence[str], **_: float) -> None:
        """Fail: there are no groups."""
        raise AssertionError(names)


def in_cluster(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> leftovers.Leftovers:
    """Delete everything of a sweep."""
    monkeypatch.setattr(leftovers, "admin_client", lambda _: cluster)
    return leftovers.delete_leftovers("127.0.0.1:9092", "ackbench-sweep-")


def test_a_topic_that_a_late_request_makes_again_is_deleted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka still answers a client that was killed."""
    cluster = Cluster("ackbench-sweep-000", again=2)
    found = in_cluster(cluster, monkeypatch)
    assert (found.deleted, found.refused) == (("ackbench-sweep-000",), {})
    assert cluster.topics == set()


@pytest.mark.usefixtures("soon_over")
def test_a_topic_that_is_made_again_each_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client runs that no one has ended; its topic is not said to be deleted."""
    with pytest.raises(WaitTimeout, match=r"ackbench-sweep-\* to be made again"):
        in_cluster(Cluster("ackbench-sweep-000", again=inf), monkeypatch)


def test_topics_of_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names begin in another way."""
    cluster = Cluster("ackbench-sweep2-000")
    assert in_cluster(cluster, monkeypatch).deleted == ()
    assert cluster.topics == {"ackbench-sweep2-000"}


@pytest.mark.usefixtures("soon_over")
def test_a_broker_that_does_not_list_its_groups_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups that it coordinates are not known: that none was found says nothing."""
    found = in_cluster(Cluster(lists_groups=False), monkeypatch)
    assert (found.deleted, found.refused) == ((), {})
    (reason,) = found.not_listed
    assert "cannot list the groups" in reason
    assert "_TIMED_OUT" in reason
