"""What Kafka promises for a cell: from its settings and its fault, with the source of each promise. Pure.

`experiments.verdicts.contract.rules` is the table; `docs/contract.md` holds it as text.
"""

from __future__ import annotations

from experiments.verdicts.contract.circumstances import Circumstances, circumstances_of
from experiments.verdicts.contract.guarantees import (
    CONDITIONAL_GUARANTEES,
    DOCUMENTATION,
    ENSEMBLE,
    KIP,
    ContractClause,
    Guarantee,
    Rule,
)
from experiments.verdicts.contract.rules import RULES

__all__ = [
    "CONDITIONAL_GUARANTEES",
    "RULES",
    "Circumstances",
    "ContractClause",
    "Guarantee",
    "as_markdown",
    "circumstances_of",
    "contract",
    "contract_table",
    "deciding",
]


def contract(circumstances: Circumstances) -> tuple[ContractClause, ...]:
    """Return what is promised and what is not, one commitment for each promise, in the order of `Promise`.

    Atomicity is no matter of a cell without transactions, nor what a group processes of one without a group.
    """
    grouped = circumstances.consumers > 0
    matters = {
        Guarantee.ATOMICITY: circumstances.transactional,
        Guarantee.NONE_MISSED: grouped,
        Guarantee.NONE_REPEATED: grouped,
    }
    asked = [guarantee for guarantee in Guarantee if matters.get(guarantee, True)]
    return tuple(
        deciding(guarantee, circumstances).commitment(guarantee, circumstances)
        for guarantee in asked
    )


def deciding(guarantee: Guarantee, circumstances: Circumstances) -> Rule:
    """Return the rule that decides on a promise: the first whose condition holds."""
    return next(rule for rule in RULES[guarantee] if rule.when(circumstances))


def contract_table() -> tuple[tuple[Guarantee, Rule], ...]:
    """Return the contract line by line, in the order in which the rules are asked."""
    return tuple((guarantee, rule) for guarantee in Guarantee for rule in RULES[guarantee])


def as_markdown() -> str:
    """Return the contract as `docs/contract.md` holds it: a table for each promise."""
    return "\n".join(_section(guarantee) for guarantee in Guarantee)


def _section(guarantee: Guarantee) -> str:
    head = f"### {guarantee.value}\n\n| # | when | promised | because | source |\n|---|---|---|---|---|\n"
    return head + "".join(_line(number, rule) for number, rule in enumerate(RULES[guarantee], 1))


def _line(number: int, rule: Rule) -> str:
    return f"| {number} | {rule.condition} | {'yes' if rule.guaranteed else 'no'} | {rule.reason} | [{_name(rule.source)}]({rule.source}) |\n"


def _name(source: str) -> str:
    if source.startswith(KIP):
        return f"KIP-{source.removeprefix(KIP).split('+')[0].removesuffix('%3A')}"
    return (
        "ZooKeeper's Administrator's Guide"
        if source == ENSEMBLE
        else source.removeprefix(DOCUMENTATION)
    )
