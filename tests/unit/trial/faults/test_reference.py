"""`docs/faults.md` lists the faults of the catalogue."""

from pathlib import Path

from ackbench.experiments.trial.faults.reference import as_markdown

DOCUMENT = Path(__file__).parents[4] / "docs" / "faults.md"


def test_the_document_has_a_row_for_every_fault_with_its_parameters_and_defaults() -> None:
    """Whoever changes a fault finds the row that the document lacks in the failure."""
    _, _, rest = DOCUMENT.read_text().partition("<!-- all faults -->\n")
    table, _, _ = rest.partition("\n<!-- /all faults -->")
    assert table.splitlines() == as_markdown().splitlines()
