"""The contract: per guarantee a list of rules, of which the first that matches a cell decides.

"Guaranteed" is what the sources guarantee under a cell's circumstances, without luck. "Unknown" is
what depends on a fact that is not known of the cell, such as the version of an external cluster.
Everything else is "not guaranteed", and the rule names the mechanism that can break it.
`docs/contract.md` contains these rules as tables, with the reasons for the less obvious ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.messages.markdown import table
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee, NamedGuarantee
from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances
from ackbench.experiments.verdicts.guarantees.rules import (
    DOCUMENTATION,
    JIRA,
    KIP,
    LIBRDKAFKA,
    ZOOKEEPER_GUIDE,
    Rule,
    first_rule,
    unknown,
)

_UNREAD_SETTINGS: Final = unknown(
    "the settings of the brokers cannot be read",
    lambda c: not c.broker_settings_known,
    "an external cluster refused DescribeConfigs: a topic inherits retention and compaction from "
    "its brokers, and their timeouts decide how long a failover takes",
    f"{DOCUMENTATION}topicconfigs",
)

_OUTCOMES: Final = {True: "yes", False: "no", None: "unknown"}


class ContractClause(Frozen):
    """One guarantee that a cell has, does not have, or may have."""

    guarantee: NamedGuarantee
    guaranteed: bool | None
    """`None`: unknown, because it depends on something that is not known of the cell."""
    reason: str
    """Guaranteed: by which mechanism. Not guaranteed: which mechanism breaks it. Unknown: what is
    not known of the cell, and why the guarantee depends on it."""
    source: str
    """URL of the KIP or of the documentation page."""


def clauses_of(
    circumstances: Circumstances, guarantees: Iterable[Guarantee] = GUARANTEES
) -> tuple[ContractClause, ...]:
    """Return what is guaranteed to a cell and what is not, of the guarantees that apply to it.

    Args:
        circumstances: of the cell.
        guarantees: those to look at.
    """
    return tuple(
        clause_of(guarantee, deciding_rule(guarantee, circumstances), circumstances)
        for guarantee in guarantees
        if guarantee.applies_to(circumstances)
    )


def clause_of(guarantee: Guarantee, rule: Rule, circumstances: Circumstances) -> ContractClause:
    """Return the rule applied to one cell."""
    return ContractClause(
        guarantee=guarantee,
        guaranteed=rule.guaranteed,
        reason=rule.reason_for(circumstances),
        source=rule.source,
    )


def deciding_rule(guarantee: Guarantee, circumstances: Circumstances) -> Rule:
    """Return the first rule of a guarantee whose condition holds.

    While the brokers' settings are not known, no guarantee is.
    """
    return first_rule((_UNREAD_SETTINGS, *guarantee.rules), circumstances)


def as_markdown() -> str:
    """Return the contract as `docs/contract.md` contains it: one table per guarantee."""
    return "\n".join(_section(guarantee) for guarantee in GUARANTEES)


def _section(guarantee: Guarantee) -> str:
    rows = (as_row(number, rule) for number, rule in enumerate(guarantee.rules, 1))
    lines = table(("#", "condition", "guaranteed", "reason", "source"), rows)
    return "\n".join((f"### {guarantee.name}", "", *lines, ""))


def as_row(number: int, rule: Rule) -> tuple[str, ...]:
    """Return one rule as a row of its guarantee's table."""
    return (
        str(number),
        rule.condition,
        _OUTCOMES[rule.guaranteed],
        rule.reason,
        f"[{source_name(rule.source)}]({rule.source})",
    )


def source_name(source: str) -> str:
    """Return a short name of a rule's source, as `KIP-966` or `#producerconfigs_acks`."""
    if source.startswith(KIP):
        return f"KIP-{source.removeprefix(KIP).split('+')[0].removesuffix('%3A')}"
    if source.startswith(LIBRDKAFKA):
        return f"librdkafka, {source.removeprefix(LIBRDKAFKA).split('#')[0]}"
    if source.startswith(JIRA):
        return f"KAFKA-{source.removeprefix(JIRA)}"
    if source == ZOOKEEPER_GUIDE:
        return "ZooKeeper Administrator's Guide"
    return source.removeprefix(DOCUMENTATION)
