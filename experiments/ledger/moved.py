"""What had another place in experiments and in stored documents: settings of the load, mostly.

Before the load of an experiment had sections, it was one flat `workload`. An experiment that names
a setting by its old place is refused with the new one. Stored documents keep their bytes and are
read with the new places. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

_MOVED: Final[Mapping[str, str]] = MappingProxyType(
    {
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
)
"""The new place of each setting of the flat `workload`."""
_OF_ALL_MEMBERS: Final = frozenset(
    {"slow_members", "slow_records_per_s", "auto_offset_reset", "commit_every_records"}
)
"""Those of `group` that `copy` has too; of a load that copies, they are there."""
SIZES: Final[Mapping[str, str]] = MappingProxyType(
    {"transactions": "records", "group": "consumers", "copy": "copiers"}
)
"""The sections that a load may be without, and the setting whose 0 says that it is."""

_PREFIX: Final = "workload."
_AXES: Final = frozenset(f"{_PREFIX}{name}" for name, place in _MOVED.items() if "." in place)
_IN_LABEL: Final = re.compile(rf" ({re.escape(_PREFIX)}\w+)=")


def moved_settings(names: Iterable[str]) -> Iterator[str]:
    """Yield where each of these settings of `workload` is now, as a sentence, if it has moved."""
    for name in names:
        if name in _MOVED:
            copiers = f" (of copiers: copy.{name})" if name in _OF_ALL_MEMBERS else ""
            yield f"{_PREFIX}{name} is now {_MOVED[name]}{copiers}"


def moved_axis(axis: str) -> str | None:
    """Return where an axis is now, as a sentence; `None`: it has not moved."""
    prefix, _, name = axis.partition(".")
    return next(moved_settings([name]), None) if f"{prefix}." == _PREFIX else None


def lift_load(load: Mapping[str, Any]) -> dict[str, Any]:
    """Return a load with its sections; settings of sections that it is without are left out.

    Args:
        load: the values of a flat `workload`, by name, all of them; its `keys` is their number. Any
            other load is returned unchanged.
    """
    if not isinstance(load.get("keys"), str | int):
        return dict(load)
    moved = [name for name in load if name in _MOVED]
    lifted = {name: value for name, value in load.items() if name not in moved}
    for name in moved:
        section, _, setting = _place(name, copies=load.get("kind") == "copy").partition(".")
        if setting:
            lifted.setdefault(section, {})[setting] = load[name]
    for section, size in SIZES.items():
        if is_absent(lifted.get(section, {}).get(size, 0)):
            lifted.pop(section, None)
    return lifted


def lift_cell(cell: object) -> object:
    """Return a stored cell with the new places of its axes; other values are returned unchanged.

    A cell alone does not say whether its trials copy. So axes that `group` and `copy` both have are
    those of `copy` if the cell also has one that only `copy` has.
    """
    if not isinstance(cell, Mapping) or _AXES.isdisjoint(cell):
        return cell
    lifted = {_new_axis(axis, cell): value for axis, value in cell.items()}
    for section, size in SIZES.items():
        if is_absent(lifted.get(f"{section}.{size}")):
            lifted |= {
                axis: None
                for axis in lifted
                if axis.startswith(f"{section}.") and axis != f"{section}.{size}"
            }
    return lifted


def lift_cell_text(text: str) -> str:
    """Return the text that identifies a cell in result tables, with the new places of its axes."""
    return json.dumps(lift_cell(json.loads(text)), sort_keys=True) if _PREFIX in text else text


def lift_label(label: object) -> object:
    """Return the stored label of a cell with the new places of its axes."""
    if not isinstance(label, str) or _PREFIX not in label:
        return label
    axes = _IN_LABEL.findall(label)
    lifted = _IN_LABEL.sub(lambda match: f" {_new_axis(match[1], axes)}=", label)
    for section, size in SIZES.items():
        if f" {section}.{size}=0 " in f"{lifted} ":
            lifted = re.sub(rf" {section}\.(?!{size}=)\w+=\S+", "", lifted)
    return lifted


def lift_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return a cell's stored settings, by `scope name`, with the new places of the load's."""
    scope = _PREFIX.replace(".", " ")
    load = {name[len(scope) :]: value for name, value in settings.items() if name.startswith(scope)}
    lifted = {name: value for name, value in settings.items() if not name.startswith(scope)}
    for name, value in lift_load(load).items():
        if isinstance(value, dict):
            lifted |= {f"{name} {setting}": text for setting, text in value.items()}
        else:
            lifted[f"{scope}{name}"] = value
    return lifted


_OF_ACCESS: Final = MappingProxyType(
    {
        "external": "addresses",
        "external_id": "cluster_id",
        "java_client_version": "java_client_version",
        "security": "security",
    }
)
"""Fields of a planned cluster that now are those of its `external`."""


def lift_cluster(need: Any) -> Any:
    """Return a planned cluster with what is known of an external one in a section of its own.

    Before, these were fields of the cluster itself. Other values are returned unchanged.
    """
    if not isinstance(need, dict) or _OF_ACCESS.keys().isdisjoint(need):
        return need
    external = need.get("external")
    if external is not None and not isinstance(external, str):
        return need
    lifted = {name: value for name, value in need.items() if name not in _OF_ACCESS}
    access = {new: need[old] for old, new in _OF_ACCESS.items() if old in need}
    return {**lifted, "external": None if external is None else access}


_OF_COMMANDS: Final = MappingProxyType({"strike": "inject"})
"""Parameters of a fault by command that have another name now."""


def lift_fault(fault: Any) -> Any:
    """Return a stored fault by command with its parameters' new names; others are unchanged."""
    if not isinstance(fault, dict) or fault.get("kind") != "command":
        return fault
    parameters = fault.get("parameters")
    if not isinstance(parameters, dict):
        return fault  # the model has a default, or refuses it
    lifted = {_OF_COMMANDS.get(name, name): value for name, value in parameters.items()}
    return {**fault, "parameters": lifted}


def moved_parameters(faults: Mapping[str, Any]) -> Iterator[str]:
    """Yield the new name of each parameter in `faults` that has another name now, as a sentence."""
    for fault, parameters in faults.items():
        if isinstance(parameters, Mapping) and parameters.get("kind") == "command":
            for name in parameters:
                if name in _OF_COMMANDS:
                    yield f"faults.{fault}.{name} is now faults.{fault}.{_OF_COMMANDS[name]}"


def has_moved(settings: Mapping[str, str]) -> bool:
    """Return whether settings, by `scope name`, have one at its old place."""
    return any(name.replace(" ", ".", 1) in _AXES for name in settings)


def is_absent(size: object) -> bool:
    """Return whether this value of a setting of `SIZES` says that there is no such section."""
    return str(size) == "0"


def _new_axis(axis: str, axes: Iterable[str]) -> str:
    if axis not in _AXES:
        return axis
    copies = any(_MOVED.get(other.removeprefix(_PREFIX), "").startswith("copy") for other in axes)
    return _place(axis.removeprefix(_PREFIX), copies=copies)


def _place(name: str, *, copies: bool) -> str:
    return f"copy.{name}" if copies and name in _OF_ALL_MEMBERS else _MOVED[name]
