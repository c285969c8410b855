"""Private names of PySpark that the job uses: each may change with a release of Spark."""

import ast
from collections.abc import Iterator
from typing import Final

from ackbench.infra.machine.home import REPOSITORY

PACKAGES: Final = ("dags", "experiments", "infra", "provider", "spark_jobs", "src")
USED: Final = {("spark_jobs/session.py", "_accumulatorServer")}
"""`session._stop` has the reason."""
OF_NAMED_TUPLES: Final = {"_asdict", "_fields", "_replace"}
OWN: Final = {"self", "cls"}


def private_names(source: str) -> Iterator[str]:
    """Yield the private attributes of other objects that a module uses and does not define."""
    tree = ast.parse(source)
    defined = {
        *(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)),
        *(
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in OWN
        ),
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr.startswith("_")
            and not node.attr.startswith("__")
            and node.attr not in defined | OF_NAMED_TUPLES
            and not (isinstance(node.value, ast.Name) and node.value.id in {"os", "sys"})
        ):
            yield node.attr


def test_the_job_uses_one_private_name_of_pyspark() -> None:
    """In the modules that import it."""
    found = set()
    for package in PACKAGES:
        for path in (REPOSITORY / package).rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            if "ackbench" not in path.parent.parts[-1:] and "import" in source:
                imports = ("import pyspark", "from pyspark", "from py4j")
                if any(line.strip().startswith(imports) for line in source.splitlines()):
                    name = path.relative_to(REPOSITORY).as_posix()
                    found |= {(name, private) for private in private_names(source)}
    assert found == USED
