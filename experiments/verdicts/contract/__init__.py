"""What Kafka promises for a cell: from its settings and its fault, with the source of each promise. Pure.

`experiments.verdicts.contract.rules` is the table; `docs/contract.md` holds it as text.
"""

from __future__ import annotations

from experiments.verdicts.contract.circumstances import Circumstances, circumstances_of
from experiments.verdicts.contract.promises import CONDITIONAL_GUARANTEES, DOCUMENTATION, ENSEMBLE, KIP, ContractClause, Guarantee, Rule
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
    matters = {Guarantee.ATOMICITY: circumstances.transactional, Guarantee.NONE_MISSED: grouped, Guarantee.NONE_REPEATED: grouped}
    asked = [promise for promise in Guarantee if matters.get(promise, True)]
    return tuple(deciding(promise, circumstances).commitment(promise, circumstances) for promise in asked)


def deciding(promise: Guarantee, circumstances: Circumstances) -> Rule:
    """Return the rule that decides on a promise: the first whose condition holds."""
    return next(rule for rule in RULES[promise] if rule.when(circumstances))


def contract_table() -> tuple[tuple[Guarantee, Rule], ...]:
    """Return the contract line by line, in the order in which the rules are asked."""
    return tuple((promise, rule) for promise in Guarantee for rule in RULES[promise])


def as_markdown() -> str:
    """Return the contract as `docs/contract.md` holds it: a table for each promise."""
    return "\n".join(_section(promise) for promise in Guarantee)


def _section(promise: Guarantee) -> str:
    head = f"### {promise.value}\n\n| # | when | promised | because | source |\n|---|---|---|---|---|\n"
    return head + "".join(_line(number, rule) for number, rule in enumerate(RULES[promise], 1))


def _line(number: int, rule: Rule) -> str:
    return f"| {number} | {rule.condition} | {'yes' if rule.promised else 'no'} | {rule.because} | [{_name(rule.source)}]({rule.source}) |\n"


def _name(source: str) -> str:
    if source.startswith(KIP):
        return f"KIP-{source.removeprefix(KIP).split('+')[0].removesuffix('%3A')}"
    return "ZooKeeper's Administrator's Guide" if source == ENSEMBLE else source.removeprefix(DOCUMENTATION)
