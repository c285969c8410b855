"""Log messages of this project, which a task's log, a container's log or a terminal shows."""

from __future__ import annotations

import logging
from typing import Any, Final

from ackbench.experiments.messages.visible import visible

_PACKAGE: Final = "ackbench"
_make_record: Final = logging.getLogRecordFactory()


def keep_log_records_visible() -> None:
    """From now on, log what `visible` makes of the messages of this project. Idempotent."""
    logging.setLogRecordFactory(_visible_record)


def _visible_record(*args: Any, **options: Any) -> logging.LogRecord:
    record: logging.LogRecord = _make_record(*args, **options)
    if str(record.name).partition(".")[0] == _PACKAGE:  # `logging.makeLogRecord` has no name
        record.msg, record.args = visible(record.getMessage()), ()
    return record
