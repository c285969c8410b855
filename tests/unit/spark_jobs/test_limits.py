"""A step that would wait for ever ends with a reason."""

import subprocess
import sys
import threading

import pytest
from support.golden_files import Says

from ackbench.experiments.ledger.spark_settings import SparkSetupError
from ackbench.infra.machine.home import REPOSITORY
from ackbench.spark_jobs.limits import StepLimit, limited


def test_a_step_that_takes_too_long_fails_because_what_it_waits_for_was_ended(says: Says) -> None:
    """The reason names the step, the limit and the setting; it is not how the step failed."""
    connection = threading.Event()

    def wait() -> None:
        connection.wait()
        raise ConnectionError("the answer is empty")

    with (
        pytest.raises(SparkSetupError) as raised,
        limited("measuring 2 trials", StepLimit(0.001, "1 ms for a test"), connection.set),
    ):
        wait()
    says(str(raised.value))


def test_a_step_that_fails_in_time_keeps_its_error() -> None:
    """Nothing is ended."""
    with pytest.raises(OSError, match="disk"), limited("writing", StepLimit(600, ""), exit):
        raise OSError("disk")


@pytest.mark.parametrize("end", ["None", "int"])
def test_a_process_ends_if_its_step_cannot_be_ended(end: str) -> None:
    """With the line and the exit code of the job; `int` ends nothing."""
    program = (
        "import threading; from ackbench.spark_jobs import limits; limits.GRACE_S = 0\n"
        f"with limits.limited('reading', limits.StepLimit(0.01, 'a test'), {end}):\n"
        "    threading.Event().wait()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("spark: reading was not done after 0 s, its limit (a test): ")


def test_the_limit_follows_from_the_records_or_is_the_users() -> None:
    """The message has the rule."""
    derived, users = StepLimit.of(None, 10_000_000), StepLimit.of("90", 10_000_000)
    assert derived == StepLimit(1200, "600 s and 60 s per million records")
    assert users == StepLimit(90, "spark.ackbench.stepLimitSeconds")


@pytest.mark.parametrize("setting", ["0", "-1", "1h", ""])
def test_a_limit_that_is_no_number_of_seconds_is_refused(setting: str) -> None:
    """In one line with what is allowed."""
    message = f"^spark.ackbench.stepLimitSeconds={setting}: allowed is a whole number of seconds"
    with pytest.raises(SparkSetupError, match=message):
        StepLimit.of(setting)
