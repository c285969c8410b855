"""`ackbench reproduce`: from the logs of an incident to the experiment that asks the same."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from ackbench.experiments.messages.console import console_for_results, print_text
from ackbench.experiments.messages.phrases import format_bytes, format_count, format_list, list_some
from ackbench.experiments.messages.terminal import echo_error
from ackbench.experiments.results.checkup.assembly import configuration_of
from ackbench.experiments.results.checkup.configuration import Configuration
from ackbench.experiments.results.checkup.files.found import FoundFile
from ackbench.experiments.results.checkup.files.reading import read_file
from ackbench.experiments.results.incidents.experiment_file import IncidentFile, experiment_of
from ackbench.experiments.results.incidents.likeness import Likeness, likenesses
from ackbench.experiments.results.incidents.logs import Window, is_log, read_logs
from ackbench.experiments.results.incidents.node_outages import Incident
from ackbench.experiments.results.incidents.sightings import ReadLog
from ackbench.experiments.results.incidents.timeline import Entry, moment_text, timeline
from ackbench.infra.errors import InputError
from ackbench.infra.machine.files import replace_file

_MOST_FILES: Final = 500
_MOST_ENTRIES: Final = 30
_MOST_PROBLEMS: Final = 3
_MOMENTS: Final = ("%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M")


def reproduce(
    files: Sequence[Path],
    window: Window,
    *,
    zone: timedelta,
    topics: Sequence[str],
    guarantee: str,
    out: Path,
    in_full: bool,
) -> int:
    """Print what logs say happened, and write the experiment that asks the same.

    Args:
        files: logs and configuration files, or folders of them.
        window: the time in question.
        zone: how far moments without a time zone are ahead of UTC.
        topics: those in question; none: all.
        guarantee: the measure that is to be 0.
        out: the file to write.
        in_full: print the whole timeline.

    Raises:
        InputError: a file cannot be read, or none of them is a log with a line of Kafka.
    """
    logs, others = _sorted_out(list(_files_in(files)))
    read = read_logs(logs, window, zone)
    if not any(log.sightings for log in read):
        raise InputError(
            f"{list_some([str(path) for path in logs or files])}: no line of a broker, a "
            "controller or a client of Kafka in the time in question"
        )
    configuration = _configuration(others)
    incident = Incident(read, window.begin_s, topics)
    alike = likenesses(incident)
    written = experiment_of(incident, alike[0] if alike else None, configuration, guarantee)
    replace_file(out, written.text)
    terminal = sys.stdout.isatty()
    console = console_for_results(terminal=terminal)
    for line in (
        *_head(read),
        *_timeline_lines(timeline(incident), console.width, in_full=in_full),
        *_answer(alike),
        *_rest(written, out),
    ):
        print_text(console, line, wrap=terminal)
    return 0


def _files_in(named: Iterable[Path]) -> Iterator[Path]:
    count = 0
    for path in named:
        inside = (
            sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        )
        for one in inside:
            count += 1
            if count > _MOST_FILES:
                raise InputError(f"more than {_MOST_FILES} files: name those of the incident")
            yield one


def _sorted_out(files: Sequence[Path]) -> tuple[list[Path], list[FoundFile]]:
    """Return the logs, and what was found in configuration files; other files are named.

    Raises:
        InputError: the only file is neither.
    """
    logs: list[Path] = []
    found: list[FoundFile] = []
    problems: list[str] = []
    for path in files:
        try:
            if is_log(path):
                logs.append(path)
            else:
                found.append(read_file(path))
        except InputError as error:
            if len(files) == 1:
                raise
            problems.append(str(error))
    for problem in problems[:_MOST_PROBLEMS]:
        echo_error(f"ackbench: left out: {problem}")
    if len(problems) > _MOST_PROBLEMS:
        others = format_count(len(problems) - _MOST_PROBLEMS, "other file")
        echo_error(f"ackbench: left out: {others} that are no logs or settings of Kafka")
    return logs, found


def _configuration(found: Sequence[FoundFile]) -> Configuration | None:
    if not found:
        return None
    configuration = configuration_of(found)
    for warning in configuration.warnings:
        echo_error(f"ackbench: {warning}")
    return configuration


def _head(logs: Sequence[ReadLog]) -> Iterator[str]:
    nodes = sorted({log.node for log in logs if log.node is not None})
    clients = sum(log.node is None for log in logs)
    moments = [one for log in logs for one in (log.first_s, log.last_s) if one is not None]
    what = [f"{format_count(len(nodes), 'node')}"] if nodes else []
    what += [f"{format_count(clients, 'log')} of clients"] if clients else []
    lines = sum(log.file.lines for log in logs)
    yield (
        f"{moment_text(min(moments))} to {moment_text(max(moments))[11:]} UTC: "
        f"{format_list(what)}, {lines:,} lines"
    )
    for log in logs:
        if log.file.left_out_bytes:
            yield f"left out: the last {format_bytes(log.file.left_out_bytes)} of {log.file.name}"
    if without := [log.file.name for log in logs if log.file.without_zone]:
        zoned = len(without) < len(logs)
        beside = ", beside others that have one" if zoned else ""
        yield (
            f"moments of {list_some(without, 3)} have no time zone{beside}: they are taken as "
            "--zone says (default: UTC)"
        )
    yield ""


def _timeline_lines(entries: Sequence[Entry], width: int, *, in_full: bool) -> Iterator[str]:
    shown = entries if in_full else entries[:_MOST_ENTRIES]
    for entry in shown:
        times = f" (x{entry.times})" if entry.times > 1 else ""
        text = f"{entry.moment}  {entry.what}{times}"
        room = width - len(text) - 2
        yield text + (f"  {entry.source:>{room}}" if room >= len(entry.source) else "")
        if room < len(entry.source):
            yield f"{'':14}{entry.source}"
    if len(shown) < len(entries):
        yield f"and {format_count(len(entries) - len(shown), 'other line')}: --all"
    yield ""


def _answer(alike: Sequence[Likeness]) -> Iterator[str]:
    if not alike:
        yield "No fault was recognised: the experiment has none (ackbench faults)."
        return
    best, *others = alike
    yield f"Most like: {best.fault}: {'; '.join(best.reasons)}."
    for other in others:
        yield f"Also like: {other.fault}: {'; '.join(other.reasons)}."


def _rest(written: IncidentFile, out: Path) -> Iterator[str]:
    yield from ("", "Not in the files:") if written.questions else ()
    yield from (f"- {question}" for question in written.questions)
    yield ""
    if written.problem:
        yield f"written: {out}; to be completed: {written.problem}"
    else:
        yield f"written: {out}; run it: ackbench run {out}"


def moment_of(text: str, option: str, zone: timedelta) -> float:
    """Return a moment as seconds since the epoch.

    Args:
        text: `2026-11-27 18:08`, with seconds or not.
        option: that has it.
        zone: how far it is ahead of UTC.

    Raises:
        InputError: it is no moment.
    """
    for form in _MOMENTS:
        try:
            moment = datetime.strptime(text.replace("T", " "), form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return (moment - zone).timestamp()
    raise InputError(f"{option} {text!r}; allowed: a moment such as 2026-11-27 18:08")
