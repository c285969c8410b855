"""What Kafka guarantees to a cell, by its settings and its fault, with sources.

`rules` contains the contract as data; `docs/contract.md` is generated from it.
"""

from __future__ import annotations

from ackbench.experiments.verdicts.contract.circumstances import Circumstances, circumstances_of
from ackbench.experiments.verdicts.contract.guarantees import (
    CONDITIONAL_GUARANTEES,
    ContractClause,
    Guarantee,
    Rule,
)
from ackbench.experiments.verdicts.contract.rules import (
    RULES,
    as_markdown,
    clauses_of,
    contract_table,
    deciding_rule,
)

__all__ = [
    "CONDITIONAL_GUARANTEES",
    "RULES",
    "Circumstances",
    "ContractClause",
    "Guarantee",
    "Rule",
    "as_markdown",
    "circumstances_of",
    "clauses_of",
    "contract_table",
    "deciding_rule",
]
