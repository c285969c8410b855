"""`ackbench compare` and the gate `--fail-on`: output, files and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.builders.records import a_spec
from support.builders.result_tables import loss_counts
from support.builders.sweep_folders import measured_sweep_folder
from support.command_line import ackbench
from support.golden_files import Says

from ackbench.experiments.commands.cli import FAIL_ON
from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.comparing.findings import UNKNOWN, VIOLATED
from ackbench.experiments.sweep.expectations import Expectation, Relation
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import REPOSITORY, Home


def test_the_help_and_the_document_name_each_condition_of_the_gate() -> None:
    """The help cannot import the guarantees: `ackbench --help` would be slow."""
    assert all(f"{word} (" in FAIL_ON for word in (VIOLATED, UNKNOWN))
    document = (REPOSITORY / "docs" / "ci.md").read_text()
    assert all(f"\n| `{one}` | " in document for one in (VIOLATED, UNKNOWN))


def one_cell(home: Path, name: str, lost: int, *expected: Expectation) -> SweepFolder:
    """Return a measured sweep of two trials without a fault, with acks=all and idempotence.

    Each trial lost `lost` records; its experiment expects `expected`.
    """
    producer = {"acks": "all", "enable.idempotence": "true"}
    cell = {
        "acks": "all",
        "enable.idempotence": True,
        "replication.factor": 3,
        "partitions": 1,
        "fault": "none",
    }
    specs = [
        a_spec(
            trial_id=f"{n:03d}-abcdef", order=n, repeat=n, seed=42 + n, cell=cell, producer=producer
        )
        for n in range(2)
    ]
    sweep = measured_sweep_folder(Home(home), name, specs, lambda _: loss_counts(100, lost))
    sweep.write_plan(sweep.plan().model_copy(update={"expectations": expected}))
    return sweep


def both_acks(home: Path) -> SweepFolder:
    """Return a measured sweep of two trials per cell; each lost three records with acks=all."""
    cells: list[Cell] = [
        {
            "acks": acks,
            "enable.idempotence": False,
            "replication.factor": 3,
            "partitions": 1,
            "fault": "none",
        }
        for acks in ("all", 1)
    ]
    specs = [
        a_spec(
            trial_id=f"{2 * n + repeat:03d}-abcdef",
            order=2 * n + repeat,
            repeat=repeat,
            seed=42 + repeat,
            cell=cell,
            label=f"acks={cell['acks']} none",
            producer={"acks": str(cell["acks"]), "enable.idempotence": "false"},
        )
        for n, cell in enumerate(cells)
        for repeat in range(2)
    ]
    return measured_sweep_folder(
        Home(home),
        "cells",
        specs,
        lambda spec: loss_counts(9, 3 if spec.cell["acks"] == "all" else 0),
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home with sweeps without loss and with loss, expected or not, and of two acks."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    one_cell(tmp_path, "kept", 0)
    one_cell(tmp_path, "broken", 3)
    nothing_lost = Expectation(measure="lost", relation=Relation.EQUAL, bound=0)
    one_cell(tmp_path, "as-expected", 0, nothing_lost)
    one_cell(tmp_path, "not-expected", 3, nothing_lost)
    both_acks(tmp_path)
    return tmp_path


KEPT, BROKEN, AS_EXPECTED, NOT_EXPECTED, TWO_CELLS = (
    "kept-20260101T000000-abcd",
    "broken-20260101T000000-abcd",
    "as-expected-20260101T000000-abcd",
    "not-expected-20260101T000000-abcd",
    "cells-20260101T000000-abcd",
)


def test_the_details_of_a_sweep_at_a_uri_are_a_command_that_finds_it(home: Path) -> None:
    """As it was given: its id alone names a sweep of the home."""
    uri = (home / "sweeps" / TWO_CELLS).as_uri()
    details = f"details: ackbench compare {uri} --by acks --all"
    assert details in ackbench("compare", uri, "--by", "acks").output


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("report", KEPT), 0),
        (("report", KEPT, "--fail-on", "violated"), 0),
        (("report", BROKEN), 0),
        (("report", BROKEN, "--fail-on", "violated"), 3),
        (("report", AS_EXPECTED), 0),
        (("report", NOT_EXPECTED), 3),
        (("report", BROKEN, "--fail-on", "bad"), 2),
        (("report", BROKEN, "--fail-on", "lost"), 2),
        (("report", BROKEN, "--fail-on", "worse:loss>1%"), 2),
        (("compare", KEPT, KEPT), 2),
        (("compare", KEPT, BROKEN), 0),
        (("compare", KEPT, BROKEN, "--fail-on", "violated"), 3),
        (("compare", KEPT, BROKEN, "--fail-on", "worse:loss>1"), 2),
        (("compare", AS_EXPECTED, NOT_EXPECTED), 0),
        (("compare", KEPT, "nowhere"), 2),
        (("run", "quick", "--fail-on", "bad"), 2),
    ],
)
def test_the_gates_exit_codes(arguments: tuple[str, ...], code: int) -> None:
    """3: the gate failed. 2: invalid request. 0: it passed, or there is none."""
    result = ackbench(*arguments)
    lines = result.stderr.splitlines()
    outcome = {0: "ackbench: gate: passed", 3: "ackbench: gate: failed"}
    assert result.exit_code == code
    assert all(line.startswith("ackbench: ") for line in lines)
    if code == 2:
        assert len(lines) == 1
    else:
        gated = "--fail-on" in arguments or arguments[1] in {AS_EXPECTED, NOT_EXPECTED}
        assert lines[-1:] == ([outcome[code]] if gated and lines else [])


@pytest.mark.usefixtures("home")
def test_what_is_not_as_expected_is_named_with_its_figure(says: Says) -> None:
    """The bound, the cell, the worst value, and the trials that show it."""
    errors = ackbench("report", NOT_EXPECTED).stderr.splitlines()
    says(errors[-3])
    assert errors[-2].startswith(f"ackbench: not expected: {NOT_EXPECTED}: lost = 0 with ")
    assert errors[-2].endswith(": not met: 3 at worst, in 2 trials (000-abcdef, 001-abcdef)")


def test_the_gate_names_trials_and_cell(home: Path) -> None:
    """The reader of a CI log finds them from the one line."""
    del home
    errors = ackbench("report", BROKEN, "--fail-on", "violated").stderr
    assert errors.startswith("ackbench: gate: 6 verdicts in 1 cell: 2 held, 1 violated, ")
    assert f"\nackbench: violated: {BROKEN}: no-acked-loss with " in errors
    assert "(000-abcdef, 001-abcdef)" in errors


def test_a_comparison_is_a_table_json_and_a_page(home: Path) -> None:
    """All three show the same figures."""
    page = home / "ab.html"
    printed = ackbench("compare", KEPT, BROKEN, "--html", str(page)).stdout
    data = json.loads(ackbench("compare", KEPT, BROKEN, "--json").stdout)
    assert "trials with loss" in printed
    assert data["cells"][0]["differences"][0]["difference"] == 1
    assert "no-acked-loss: HELD, power not shown became VIOLATED" in printed
    assert "no-acked-loss: HELD, power not shown became VIOLATED" in page.read_text()


def test_an_unwritable_page_is_a_one_line_error(home: Path) -> None:
    """The line has the reason from the operating system."""
    result = ackbench("compare", KEPT, BROKEN, "--html", str(home / "nowhere" / "ab.html"))
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "cannot be written (No such file or directory)" in result.stderr


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--by", "acks"), 0, ""),
        (("--by", "acks", "--fail-on", "violated"), 3, "violated: cells-"),
        (
            ("--by", "acks", "--fail-on", "worse:throughput>1%", "--fail-on", "unknown"),
            3,
            "unknown: throughput with acks=all none",
        ),
        (
            ("--by", "acks", "--fail-on", "worse:loss>1"),
            2,
            "invalid value for --fail-on: 'worse:loss>1'",
        ),
        (("--by", "ack"), 2, "did you mean acks?"),
        (("--by", "partitions"), 2, "only one value of it, 1"),
        ((), 2, "give either a second sweep or --by AXIS (`ackbench compare --help`)"),
        ((TWO_CELLS, "--by", "acks"), 2, "give only one of a second sweep and --by AXIS"),
        (("--by", "acks", "--html", "nowhere/at/all.html"), 2, "cannot be written"),
    ],
)
def test_the_exit_codes_of_a_comparison_within_a_sweep(
    arguments: tuple[str, ...], code: int, message: str
) -> None:
    """The gate is the same as with two sweeps; an invalid request is one line."""
    result = ackbench("compare", TWO_CELLS, *arguments)
    assert result.exit_code == code
    assert message in result.stderr
    assert bool(result.stderr) is (code != 0)
    assert code != 2 or (result.stdout, result.stderr.count("\n")) == ("", 1)


def test_a_comparison_within_a_sweep_is_a_table_json_and_a_page(home: Path) -> None:
    """All three show the same figures; acks=1 is the first value, though acks=all ran first."""
    page = home / "cells.html"
    printed = ackbench("compare", TWO_CELLS, "--by", "acks", "--all", "--html", str(page)).stdout
    data = json.loads(ackbench("compare", TWO_CELLS, "--by", "acks", "--json").stdout)
    difference = data["comparisons"][0]["cells"][0]["differences"][0]
    assert (difference["measure"], difference["difference"]) == ("loss", 1)
    assert "A: acks=1\nB: acks=all" in printed
    assert "acks=1|all none" in printed
    assert "+100.0 points" in printed
    assert "effect" in printed
    assert "no-acked-loss: HELD became VIOLATED" in printed
    assert "no-acked-loss: HELD became VIOLATED" in page.read_text()


@pytest.mark.usefixtures("home")
def test_a_comparison_within_a_sweep_is_a_row_for_each_value() -> None:
    """With what they lost; which difference that is, `--all` says."""
    printed = ackbench("compare", TWO_CELLS, "--by", "acks").stdout
    rows = [line.split() for line in printed.splitlines() if line.startswith(("1 ", "all "))]
    assert [row[:4] for row in rows] == [["1", "0", "of", "2"], ["all", "2", "of", "2"]]
    assert "0" in rows[0][4:]
    assert "6" in rows[1][4:]
    assert "fault: none, " in printed
    assert "2 trials per cell: differences cannot be tested; --repeats 7 can show one" in printed
    assert "points" not in printed
