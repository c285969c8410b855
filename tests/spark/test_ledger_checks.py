"""An invalid ledger gives one line and exit code 2 before a JVM is started, and changes nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ackbench.experiments.ledger.result_tables import RESULTS
from ackbench.spark_jobs.measure import main
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedLogRow, PlantedTrial

TRIAL = "000-planted"


def _missing(trial: Path) -> None:
    (trial / "log.parquet").unlink()


def _truncated(trial: Path) -> None:
    content = (trial / "log.parquet").read_bytes()
    (trial / "log.parquet").write_bytes(content[: len(content) // 2])


def _empty(trial: Path) -> None:
    (trial / "log.parquet").write_bytes(b"")


def _of_another_trial(trial: Path) -> None:
    other = PlantedTrial("001-other", [PlantedAttempt(0, 0)]).plant(trial.parent.parent)
    (other / "attempts.parquet").replace(trial / "attempts.parquet")


def _of_another_version(trial: Path) -> None:
    record = json.loads((trial / "trial.json").read_text())
    (trial / "trial.json").write_text(json.dumps(record | {"ledger_version": 99}))


def _without_a_column(trial: Path) -> None:
    table = pq.read_table(trial / "reads.parquet")
    pq.write_table(table.drop_columns(["received_ns"]), trial / "reads.parquet")


def _of_other_types(trial: Path) -> None:
    table = pq.read_table(trial / "log.parquet")
    number = table.schema.get_field_index("seq")
    pq.write_table(
        table.set_column(number, "seq", table["seq"].cast("int32")), trial / "log.parquet"
    )


def _short_of_rows(trial: Path) -> None:
    table = pq.read_table(trial / "attempts.parquet")
    pq.write_table(table.slice(1), trial / "attempts.parquet")


def _without_record(trial: Path) -> None:
    (trial / "trial.json").unlink()


def _invalid_json(trial: Path) -> None:
    (trial / "trial.json").write_text("{")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_missing, "log.parquet is missing"),
        (_truncated, "log.parquet cannot be read: "),
        (_empty, "log.parquet cannot be read: "),
        (
            _of_another_trial,
            "attempts.parquet has ackbench.trial_id=001-other; required: 000-planted",
        ),
        (
            _of_another_version,
            "trial.json has ledger version 99; this ackbench reads the versions 4 and 5",
        ),
        (
            _without_a_column,
            (
                "reads.parquet has the columns consumer, generation, partition, offset, producer, "
                "seq, intended_ns; required: "
            ),
        ),
        (_of_other_types, "log.parquet has "),
        (_short_of_rows, "attempts.parquet has 1 records; trial.json counts 2"),
        (_invalid_json, "trial.json is not a valid trial manifest: "),
        (_without_record, "trial.json is missing"),
    ],
)
def test_a_damaged_ledger_gives_one_line_that_names_trial_and_file(
    damage: Callable[[Path], None], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no stack trace, the exit code is 2, and no results are written."""
    trial = PlantedTrial(
        TRIAL, [PlantedAttempt(0, 0), PlantedAttempt(0, 1)], [PlantedLogRow(0, 0, 0)]
    ).plant(tmp_path)
    damage(trial)
    code, output = main([str(tmp_path)]), capsys.readouterr().err
    assert (
        code,
        output.startswith(f"measure: trial {TRIAL}: {message}"),
        output.count("\n"),
        (tmp_path / "results").exists(),
    ) == (2, True, 1, False), output


def test_a_folder_that_is_not_a_sweep_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is created in it."""
    assert main([str(tmp_path)]) == 2
    message = f"measure: {tmp_path} is not a sweep: it has no folder trials\n"
    assert capsys.readouterr().err == message
    assert list(tmp_path.iterdir()) == []


def test_incomplete_and_failed_trials_are_ignored(tmp_path: Path) -> None:
    """A sweep without a sealed trial has results without rows, and needs no JVM."""
    for name in ("000-planted.partial", "001-planted.failed"):
        (tmp_path / "trials" / name).mkdir(parents=True)
    (tmp_path / "trials" / "000-planted.partial" / "trial.json").write_text("{")
    assert main([str(tmp_path)]) == 0
    assert {
        path.stem: pq.read_metadata(path).num_rows
        for path in (tmp_path / "results").glob("*.parquet")
    } == dict.fromkeys(RESULTS, 0)


def test_at_a_uri_a_trial_without_record_is_not_published_yet(tmp_path: Path) -> None:
    """Its tables are uploaded before `trial.json`; at a path its absence is damage."""
    folder = PlantedTrial("000-partly", [PlantedAttempt(0, 0)]).plant(tmp_path)
    _without_record(folder)
    assert main([str(tmp_path)]) == 2
    assert main([tmp_path.as_uri()]) == 0
    assert pq.read_table(tmp_path / "results" / "trials.parquet").num_rows == 0
