"""What Java's programs say of themselves."""

from __future__ import annotations

from pathlib import Path

from ackbench.experiments.trial.clients.java.dialect import COPIER, JavaDialect

LOG = (
    "INFO ConsumerConfig values: \n\tclient.id = reader\n\tisolation.level = read_committed\n"
    "INFO ProducerConfig values: \n\tacks = -1\n\tclient.id = writer\n"
)
PASSED = {"isolation.level": "read_uncommitted"}


def test_the_settings_of_a_copier_are_those_of_its_consumer() -> None:
    """Its producer is in the same process and logs its own, of which some have the same names."""
    copier = JavaDialect("4.3.1", Path("cache"), COPIER)
    assert copier.effective_settings(LOG, {}, PASSED, PASSED) == {
        "client.id": "reader",
        "isolation.level": "read_committed",
    }
    writer = LOG[LOG.index("INFO ProducerConfig") :]
    assert copier.effective_settings(writer, {}, PASSED, PASSED)["client.id"] == "writer"
