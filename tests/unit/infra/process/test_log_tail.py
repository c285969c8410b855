"""The end of a log explains a failure, and a growing file is read one complete line at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackbench.infra.process.log_tail import (
    LineFollower,
    cut_log,
    failure_excerpt,
    last_lines,
    read_from,
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log file that is not written yet."""
    return tmp_path / "node.log"


def test_a_failure_excerpt_begins_with_the_first_error(log: Path) -> None:
    """What comes after it is mostly the shutdown of everything else."""
    log.write_text(
        "\n".join(["[t] INFO a", "[t] ERROR b", "\tat c"] + [f"[t] INFO {n}" for n in range(30)])
    )
    assert failure_excerpt(log).splitlines()[:2] == ["[t] ERROR b", "\tat c"]
    assert len(failure_excerpt(log).splitlines()) == 12


def test_a_failure_excerpt_without_an_error_is_the_last_lines(log: Path) -> None:
    """A missing log and an empty log are reported as such."""
    log.write_text("\n".join(map(str, range(30))))
    assert failure_excerpt(log).splitlines() == [str(number) for number in range(18, 30)]
    assert "never written" in failure_excerpt(log.with_name("none"))
    log.write_text("")
    assert "is empty" in failure_excerpt(log)


def test_the_last_lines_are_those_that_are_not_blank(log: Path) -> None:
    """At most as many as requested; none of a missing file."""
    log.write_text("one\n\ntwo\n  \nthree\n\n")
    assert last_lines(log, 2) == ["two", "three"]
    assert last_lines(log, 9) == ["one", "two", "three"]
    assert last_lines(log.with_name("none"), 9) == []


def test_the_last_lines_leave_out_an_earlier_run(log: Path) -> None:
    """A log that is appended to begins at the offset that it had before."""
    log.write_text("earlier run\n")
    begin_bytes = log.stat().st_size
    with log.open("a") as file:
        file.write("this run\n")
    assert last_lines(log, 9, since_bytes=begin_bytes) == ["this run"]
    assert read_from(log, begin_bytes) == "this run\n"


def test_a_long_log_is_read_from_its_last_64_kib(log: Path) -> None:
    """Its size does not matter, nor bytes that are not UTF-8."""
    log.write_bytes(b"\xff" * 100_000 + b"\nlast\n")
    assert last_lines(log, 1) == ["last"]


def test_a_growing_file_is_followed_by_complete_lines(log: Path) -> None:
    """Half a line waits for its other half; a blank line is a line."""
    log.write_bytes(b"one\n\ntw")
    follower = LineFollower(log)
    assert follower.new_lines() == [b"one", b""]
    assert follower.new_lines() == []
    with log.open("ab") as file:
        file.write(b"o\nthree\n")
    assert follower.new_lines() == [b"two", b"three"]
    assert LineFollower(log, log.stat().st_size).new_lines() == []


def test_a_log_above_its_limit_is_cut_to_its_last_complete_lines_while_its_process_goes_on(
    tmp_path: Path,
) -> None:
    """What the process writes afterwards follows the lines that were kept."""
    log = tmp_path / "service.log"
    with log.open("a") as service:
        service.writelines(f"line {number}\n" for number in range(1000))
        service.flush()
        assert cut_log(log, limit_bytes=5_000, kept_bytes=25)
        service.write("and on\n")
    assert log.read_text() == "line 998\nline 999\nand on\n"


def test_a_log_below_its_limit_and_a_link_are_not_cut(tmp_path: Path) -> None:
    """A link may lead to a file of others."""
    log, link = tmp_path / "service.log", tmp_path / "link.log"
    log.write_text("a line\n" * 100)
    link.symlink_to(log)
    assert not cut_log(log, limit_bytes=700, kept_bytes=10)
    assert not cut_log(link, limit_bytes=100, kept_bytes=10)
    assert log.read_text() == "a line\n" * 100
