"""The contract: per guarantee a list of rules, of which the first that matches a cell decides.

"Guaranteed" is what the sources guarantee under a cell's circumstances, without luck. "Unknown" is
what depends on a fact that is not known of the cell, such as the version of an external cluster.
Everything else is "not guaranteed", and the rule names the mechanism that can break it.
`docs/contract.md` contains these rules as tables, with the reasons for the less obvious ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ackbench.experiments.verdicts.contract import (
    availability,
    compaction,
    consumed,
    duplicates_and_order,
    loss,
    read_availability,
    transactions_and_groups,
)
from ackbench.experiments.verdicts.contract.circumstances import Circumstances
from ackbench.experiments.verdicts.contract.guarantees import (
    DOCUMENTATION,
    JIRA,
    KIP,
    LIBRDKAFKA,
    ZOOKEEPER_GUIDE,
    ContractClause,
    Guarantee,
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

RULES: Final[Mapping[Guarantee, tuple[Rule, ...]]] = {
    Guarantee.NO_ACKED_LOSS: loss.RULES,
    Guarantee.NO_DUPLICATES: duplicates_and_order.DUPLICATE_RULES,
    Guarantee.ORDER: duplicates_and_order.ORDER_RULES,
    Guarantee.NO_READ_LOSS: consumed.READ_LOSS_RULES,
    Guarantee.CONSUMERS_AGREE: consumed.AGREEMENT_RULES,
    Guarantee.LAST_VALUE_KEPT: compaction.RULES,
    Guarantee.ATOMICITY: transactions_and_groups.ATOMICITY_RULES,
    Guarantee.AVAILABILITY: availability.RULES,
    Guarantee.READ_AVAILABILITY: read_availability.RULES,
    Guarantee.NO_MISSED_RECORDS: transactions_and_groups.MISSED_RULES,
    Guarantee.NO_REPROCESSING: transactions_and_groups.REPROCESSING_RULES,
}

_OUTCOMES: Final = {True: "yes", False: "no", None: "unknown"}


def clauses_of(circumstances: Circumstances) -> tuple[ContractClause, ...]:
    """Return what is guaranteed to a cell and what is not, in the order of `Guarantee`.

    Cells without transactions have no clause on atomicity; cells without a consumer group have
    none on what a group processes, or on whether its members and the concurrent consumer agree;
    cells without compaction have none on last values.
    """
    has_group = circumstances.consumers > 0
    applies = {
        Guarantee.ATOMICITY: circumstances.transactional,
        Guarantee.CONSUMERS_AGREE: has_group,
        Guarantee.LAST_VALUE_KEPT: circumstances.compacted,
        Guarantee.NO_MISSED_RECORDS: has_group,
        Guarantee.NO_REPROCESSING: has_group,
    }
    return tuple(
        deciding_rule(guarantee, circumstances).clause(guarantee, circumstances)
        for guarantee in Guarantee
        if applies.get(guarantee, True)
    )


def deciding_rule(guarantee: Guarantee, circumstances: Circumstances) -> Rule:
    """Return the first rule of a guarantee whose condition holds.

    While the brokers' settings are not known, no guarantee is.
    """
    return first_rule((_UNREAD_SETTINGS, *RULES[guarantee]), circumstances)


def contract_table() -> tuple[tuple[Guarantee, Rule], ...]:
    """Return all rules in the order in which they are evaluated."""
    return tuple((guarantee, rule) for guarantee in Guarantee for rule in RULES[guarantee])


def as_markdown() -> str:
    """Return the contract as `docs/contract.md` contains it: one table per guarantee."""
    return "\n".join(_section(guarantee) for guarantee in Guarantee)


def _section(guarantee: Guarantee) -> str:
    head = (
        f"### {guarantee.value}\n\n"
        "| # | condition | guaranteed | reason | source |\n|---|---|---|---|---|\n"
    )
    return head + "".join(as_line(number, rule) for number, rule in enumerate(RULES[guarantee], 1))


def as_line(number: int, rule: Rule) -> str:
    """Return one rule as a line of its guarantee's table."""
    columns = (
        str(number),
        rule.condition,
        _OUTCOMES[rule.guaranteed],
        rule.reason,
        f"[{source_name(rule.source)}]({rule.source})",
    )
    return f"| {' | '.join(columns)} |\n"


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
