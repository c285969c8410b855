"""Groups that a sweep leaves in an external cluster, with an admin client in memory."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin._group import ListConsumerGroupsResult

from experiments.clients.librdkafka import leftovers


class Admin:
    """Refuses to delete a group the first times, with these errors."""

    def __init__(self, **errors: Sequence[int]) -> None:
        self.errors = {name: list(codes) for name, codes in errors.items()}
        self.asked: list[list[str]] = []

    def delete_consumer_groups(
        self, names: Sequence[str], request_timeout: float
    ) -> dict[str, Future[Any]]:
        """Answer for each group."""
        del request_timeout
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


def deleted(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Delete the groups and return those that stay."""
    monkeypatch.setattr(leftovers, "_RETRY_S", 0.001)
    monkeypatch.setattr(leftovers, "_SESSION_S", 0.2)
    return dict(leftovers._delete_groups(cast("Any", admin), sorted(admin.errors)))


def test_a_group_with_a_killed_member_is_deleted_once_its_session_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only that group is asked for again; one that is gone is no error."""
    full = KafkaError.NON_EMPTY_GROUP
    admin = Admin(a=[full, full], b=[], c=[KafkaError.GROUP_ID_NOT_FOUND])
    assert deleted(admin, monkeypatch) == {}
    assert admin.asked == [["a", "b", "c"], ["a"], ["a"]]


def test_a_group_that_may_not_be_deleted_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its reason is kept."""
    admin = Admin(a=[KafkaError.GROUP_AUTHORIZATION_FAILED])
    stays = deleted(admin, monkeypatch)
    assert "GROUP_AUTHORIZATION_FAILED" in str(stays["a"])
    assert len(admin.asked) == 1


def test_a_group_that_keeps_its_members_stays_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another application may have joined it."""
    admin = Admin(a=[KafkaError.NON_EMPTY_GROUP] * 10_000)
    assert "NON_EMPTY_GROUP" in str(deleted(admin, monkeypatch)["a"])


def test_a_broker_that_does_not_list_its_groups_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups that it coordinates are not known: that none was found says nothing."""
    listed = Future[ListConsumerGroupsResult]()
    listed.set_result(
        ListConsumerGroupsResult([], [KafkaException(KafkaError(KafkaError._TIMED_OUT))])
    )

    class OneBrokerDown:
        """No topics; the groups of one broker are unknown."""

        def list_topics(self, timeout: float) -> SimpleNamespace:
            del timeout
            return SimpleNamespace(topics={})

        def list_consumer_groups(self, request_timeout: float) -> Future[ListConsumerGroupsResult]:
            del request_timeout
            return listed

    monkeypatch.setattr(leftovers, "_RETRY_S", 0.001)
    monkeypatch.setattr(leftovers, "_SESSION_S", 0.01)
    monkeypatch.setattr(leftovers, "admin_client", lambda _: OneBrokerDown())
    found = leftovers.delete_leftovers("127.0.0.1:9092", "ackbench-sweep-")
    assert (found.deleted, found.refused) == ((), {})
    (reason,) = found.not_listed
    assert "cannot list the groups" in reason
    assert "_TIMED_OUT" in reason
