"""`docs/faults.md` lists the faults that there are."""

from pathlib import Path

from experiments.faults.reference import as_markdown


def test_the_document_has_every_fault_with_its_parameters_and_defaults() -> None:
    """It is generated: `python -c "from experiments.faults.reference import ..."`."""
    document = (Path(__file__).parents[3] / "docs" / "faults.md").read_text()
    assert as_markdown() in document
