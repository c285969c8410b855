"""Documents as ackbench stored them when loads, and access to external clusters, were flat."""

from __future__ import annotations

from typing import Any, Final

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.sweep.plan import Workload

NEW_PLACES: Final = {
    "keys": "keys.count",
    "pairs": "keys.pairs",
    "pair_apart_records": "keys.pair_apart_records",
    "hot_key_share": "keys.hot_key_share",
    "round_robin": "keys.round_robin",
    "placement": "keys.placement",
    "transaction_records": "transactions.records",
    "abort_every": "transactions.abort_every",
    "consumers": "group.consumers",
    "groups": "group.groups",
    "commit": "group.commit",
    "slow_members": "group.slow_members",
    "slow_records_per_s": "group.slow_records_per_s",
    "auto_offset_reset": "group.auto_offset_reset",
    "commit_every_records": "group.commit_every_records",
    "kind": "copy",
    "copiers": "copy.copiers",
    "delivery": "copy.delivery",
}
"""Where each setting that has moved is now."""
FLAT: Final[dict[str, Any]] = {
    "rate_records_per_s": 1000.0,
    "record_size_bytes": 100,
    "duration_s": 5.0,
    "keys": 8,
    "pairs": "common",
    "pair_apart_records": 3,
    "hot_key_share": 0.0,
    "round_robin": False,
    "placement": True,
    "producers": 2,
    "transaction_records": 0,
    "abort_every": 0,
    "consumers": 0,
    "headers": 1,
    "record_serving_brokers": False,
    "groups": 1,
    "slow_members": 0,
    "slow_records_per_s": 0.0,
    "auto_offset_reset": "latest",
    "commit": "after",
    "commit_every_records": 100,
    "kind": "produce",
    "copiers": 0,
    "delivery": "at-least-once",
}
"""A flat load with all its settings, in their order."""


def flat_load(load: Workload) -> dict[str, Any]:
    """Return a load as a plan had it."""
    settings = load.settings()
    of_members = settings.get("copy", settings.get("group", {}))
    places = {name: NEW_PLACES.get(name, f"workload.{name}").partition(".") for name in FLAT}
    found = {
        name: settings.get(section, {}).get(setting, of_members.get(setting, FLAT[name]))
        for name, (section, _, setting) in places.items()
    }
    return {**found, "kind": "copy" if load.copies else "produce"}


def flat_cell(cell: Cell) -> Cell:
    """Return a cell with the axes that a load had."""
    old = {place: f"workload.{name}" for name, place in NEW_PLACES.items()}
    return {old.get(axis, axis): value for axis, value in cell.items()}


def flat_access(access: dict[str, Any] | None) -> dict[str, Any]:
    """Return the fields that a planned cluster had instead of a section `external`."""
    known = access or {}
    return {
        "external": known.get("addresses"),
        "external_id": known.get("cluster_id"),
        "java_client_version": known.get("java_client_version"),
        "security": known.get("security", {}),
    }


def flat_settings(settings: dict[str, str], load: Workload) -> dict[str, str]:
    """Return settings, by `scope name`, as a summary had them."""
    sections = ("workload", "keys", "transactions", "group", "copy")
    others = {name: text for name, text in settings.items() if name.split()[0] not in sections}
    names = ("client", "client.defaults")
    kept = {f"workload {name}": settings[f"workload {name}"] for name in names}
    return {
        **others,
        **kept,
        **{f"workload {name}": str(value) for name, value in flat_load(load).items()},
    }
