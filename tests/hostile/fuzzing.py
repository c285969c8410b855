"""Experiments of the catalogue with random edits.

The law: planning succeeds, or raises an `InputError` of one line, within `LIMIT_S`.
"""

from __future__ import annotations

import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

from hostile.figures import Figures

from ackbench.experiments.planning.capacity import resource_needs
from ackbench.experiments.planning.catalog import CATALOG
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.planning.yaml_reader import parse_yaml
from ackbench.experiments.sweep.progress import expected_minutes
from ackbench.infra.errors import InputError

LIMIT_S: Final = 20.0
"""Of CPU time, far above that of the largest plan: what takes longer does not end."""
_WAIT_LIMIT_S: Final = 10 * LIMIT_S
MOST_EDITS: Final = 4
VALUES: Final = (
    "",
    "~",
    "null",
    "true",
    "off",
    "0",
    "-1",
    "1",
    "1.5",
    "1e400",
    "-1e400",
    ".nan",
    ".inf",
    "1e-300",
    "2147483648",
    "9223372036854775808",
    "1" * 400,
    "0x10",
    "010",
    "12:30",
    "2026-01-01",
    "all",
    "majority",
    "none",
    "java",
    "external",
    "zookeeper",
    "[]",
    "[[]]",
    "[~]",
    "[1, 1]",
    "[0, 1, all, -1]",
    "{}",
    "{a: b}",
    "{at_s: -1}",
    "'a\nb'",
    '"\\0"',
    "'%s{x}\\'",
    "'\u202e\u0000x'".replace("\u0000", " "),
    "'\U0001f480'",
    "'../../etc/passwd'",
    "'$HOME'",
    "x" * 5000,
    "leader-crash",
    "'leader-crash >> leader-pause'",
    "'leader-crash & '",
    "'leader-crash(at_s=1'",
    "'leader-crash(at_s=nan)'",
    "'((((((((('",
    "'none & none >> none'",
    "3.9.2",
    "'4.3.1 '",
    "'99.99.99'",
    "127.0.0.1:9092",
    "!!timestamp 2026-01-01",
    "!!bool x",
    "!!int x",
    "!!set {a, b}",
    "!!binary aGk=",
    "!!python/name:os.system",
    '"\\ud800"',
    "&a [*a]",
    "*a",
    "<<",
    "|",
    "@",
    "`",
    "%",
)
"""Values that replace one of the file, as YAML."""
KEYS: Final = (
    "name",
    "nodes",
    "kafka.version",
    "cluster",
    "bootstrap.servers",
    "security",
    "coordination",
    "controllers",
    "zookeeper.nodes",
    "client",
    "client.version",
    "clients",
    "client.defaults",
    "axes",
    "producer",
    "consumer",
    "topic",
    "broker",
    "workload",
    "keys",
    "transactions",
    "group",
    "copy",
    "faults",
    "repeats",
    "seed",
    "controls",
    "schedule",
    "claim",
    "acks",
    "fault",
    "partitions",
    "replication.factor",
    "enable.idempotence",
    "linger.ms",
    "min.insync.replicas",
    "cleanup.policy",
    "group.protocol",
    "transactional.id",
    "broker.session.timeout.ms",
    "copy.copiers",
    "group.consumers",
    "transactions.records",
    "keys.pairs",
    "workload.kind",
    "topic.retention.ms",
    "unclean.leader.election.enable",
    "<<",
    "''",
    "'a b'",
    "on",
    "1",
)
"""Keys that replace one of the file."""
CHARACTERS: Final = "\t\"'[]{}:,#&*!|>%@`-?~\\\u00a0\u2028\ufeff\x07é\n "


class TimeLimitExceeded(BaseException):
    """Planning took too long; no handler of the code under test may catch it."""


def run(count: int, seed: int) -> Figures:
    """Plan `count` edited experiments."""
    began_s = time.monotonic()
    failures = tuple(_failures(count, seed))
    return Figures(
        "edited experiments",
        f"planned, or one line, within {LIMIT_S:.0f} s of CPU time",
        count,
        failures,
        time.monotonic() - began_s,
    )


def edited_experiment(number: int, seed: int) -> str:
    """Return the text of an experiment of the catalogue after one edit or several."""
    chooser = random.Random(f"{seed}.{number}")  # noqa: S311 - seeded on purpose
    path = chooser.choice(sorted(CATALOG.rglob("*.yaml")))
    text = path.read_text(encoding="utf-8")
    for _ in range(chooser.randint(1, MOST_EDITS)):
        text = chooser.choice(_EDITS)(text, chooser)
    return text


def problem_of(text: str) -> str | None:
    """Return how the planning of an experiment broke the law; `None`: it did not."""
    try:
        with time_limit():
            experiment = parse_experiment(parse_yaml(text, "edited.yaml"), "edited.yaml")
            planned = plan(experiment, "sweep")
            resource_needs(planned)
            expected_minutes(planned)
    except InputError as error:
        lines = len(str(error).splitlines())
        return None if lines == 1 else f"{lines} lines: {str(error)[:200]!r}"
    except TimeLimitExceeded:
        return f"took more than {LIMIT_S:.0f} s of CPU time"
    except Exception as error:  # noqa: BLE001 - any other exception is a finding
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:120]!r} at {place.filename}:{place.lineno}"
    return None


def _failures(count: int, seed: int) -> Iterator[str]:
    for number in range(count):
        problem = problem_of(edited_experiment(number, seed))
        if problem:
            yield f"experiment {number} of seed {seed}: {problem}"


@contextmanager
def time_limit() -> Iterator[None]:
    """Raise `TimeLimitExceeded` in a block that takes too much CPU time, or waits for long.

    On a busy machine the block may have to wait for a CPU.
    """

    def end(_number: int, _frame: FrameType | None) -> None:
        raise TimeLimitExceeded

    timers = {
        signal.ITIMER_PROF: (signal.SIGPROF, LIMIT_S),
        signal.ITIMER_REAL: (signal.SIGALRM, _WAIT_LIMIT_S),
    }
    before = {number: signal.signal(number, end) for number, _ in timers.values()}
    for timer, (_, limit_s) in timers.items():
        signal.setitimer(timer, limit_s)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


# The edits


def _replace_value(text: str, chooser: random.Random) -> str:
    return _with_line(text, chooser, lambda line: _value_replaced(line, chooser))


def _value_replaced(line: str, chooser: random.Random) -> str:
    key, colon, _ = line.partition(": ")
    return f"{key}: {chooser.choice(VALUES)}" if colon else f"{line}{chooser.choice(VALUES)}"


def _replace_key(text: str, chooser: random.Random) -> str:
    def replaced(line: str) -> str:
        key, colon, value = line.partition(":")
        indent = key[: len(key) - len(key.lstrip())]
        return f"{indent}{chooser.choice(KEYS)}:{value}" if colon else line

    return _with_line(text, chooser, replaced)


def _replace_item(text: str, chooser: random.Random) -> str:
    """Replace an item of a list in one line, or add one."""

    def replaced(line: str) -> str:
        head, bracket, tail = line.partition("[")
        if not bracket:
            return line
        items = tail.rstrip("] ").split(",")
        items[chooser.randrange(len(items))] = chooser.choice(VALUES)
        return f"{head}[{','.join([*items, *chooser.sample(VALUES, chooser.randint(0, 1))])}]"

    return _with_line(text, chooser, replaced)


def _insert_line(text: str, chooser: random.Random) -> str:
    return _with_line(
        text,
        chooser,
        lambda line: (
            f"{line}\n{line[: len(line) - len(line.lstrip())]}"
            f"{chooser.choice(KEYS)}: {chooser.choice(VALUES)}"
        ),
    )


def _delete_line(text: str, chooser: random.Random) -> str:
    lines = text.splitlines()
    del lines[chooser.randrange(len(lines))]
    return "\n".join(lines)


def _copy_line(text: str, chooser: random.Random) -> str:
    lines = text.splitlines()
    lines.insert(chooser.randrange(len(lines)), chooser.choice(lines))
    return "\n".join(lines)


def _indent_line(text: str, chooser: random.Random) -> str:
    return _with_line(text, chooser, lambda line: " " * chooser.randint(1, 4) + line)


def _replace_character(text: str, chooser: random.Random) -> str:
    place = chooser.randrange(len(text))
    return text[:place] + chooser.choice(CHARACTERS) + text[place + chooser.randint(0, 1) :]


def _truncate(text: str, chooser: random.Random) -> str:
    return text[: chooser.randrange(len(text))] or " "


def _with_line(text: str, chooser: random.Random, change: Callable[[str], str]) -> str:
    lines = text.splitlines() or [""]
    place = chooser.randrange(len(lines))
    lines[place] = change(lines[place])
    return "\n".join(lines) or " "


_EDITS: Final[Sequence[Callable[[str, random.Random], str]]] = (
    _replace_value,
    _replace_value,
    _replace_value,
    _replace_item,
    _replace_item,
    _replace_key,
    _replace_key,
    _insert_line,
    _insert_line,
    _delete_line,
    _copy_line,
    _indent_line,
    _replace_character,
    _truncate,
)
