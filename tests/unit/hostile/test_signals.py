"""The signals that processes get at random moments."""

from __future__ import annotations

import signal
import subprocess

import psutil
import pytest
from hostile.signals import Signal, send, signals

from ackbench.infra.process.waiting import wait_until


def test_half_of_the_signals_are_kills_and_they_follow_from_the_seed() -> None:
    """So a round that failed can be repeated."""
    first = signals(20, seed=3, longest_s=5.0)

    assert [one.stopped_s is None for one in first].count(True) == 10
    assert first == signals(20, seed=3, longest_s=5.0)
    assert first != signals(20, seed=4, longest_s=5.0)


@pytest.mark.parametrize(
    ("stopped_s", "code"), [(None, -signal.SIGKILL), (0.1, -signal.SIGTERM)], ids=["kill", "stop"]
)
def test_a_stopped_process_goes_on_and_a_killed_one_is_dead(
    stopped_s: float | None, code: int
) -> None:
    """A process that is still stopped would not act upon SIGTERM."""
    process = subprocess.Popen(["sleep", "600"])
    assert send(Signal(0.0, stopped_s), [process.pid])
    process.terminate()

    assert process.wait(10) == code


def test_a_stopped_process_goes_on_if_the_attack_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would stay stopped, and hold what it has, for ever."""
    process = subprocess.Popen(["sleep", "600"])

    def interrupt(_until_s: float) -> None:
        wait_until(
            lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED,
            awaiting="the stop",
            timeout_s=60,
        )
        raise KeyboardInterrupt

    monkeypatch.setattr("hostile.signals.sleep_until", interrupt)
    with pytest.raises(KeyboardInterrupt):
        send(Signal(0.0, 60.0), [process.pid])
    process.terminate()

    assert process.wait(10) == -signal.SIGTERM
