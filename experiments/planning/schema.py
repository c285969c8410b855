"""The JSON Schema of experiment files, by which editors complete and check them.

It follows from the model of the file. Names of properties, axes, faults and measures are offered;
others stay allowed, because which of them a file may use depends on its clients and versions:
`ackbench run --dry-run` says.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from ackbench.experiments.planning.axes import PROPERTY_SCOPES, STRUCTURE_AXES, known_names
from ackbench.experiments.planning.clients.rules import librdkafka_rules
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.field_types import ALERTS, WHERE
from ackbench.experiments.planning.yaml_reader import has_unit
from ackbench.experiments.sweep.expectations import EXPECTABLE
from ackbench.experiments.trial.faults import FAULTS

_ANY_NAME: Final = Experiment(name="x", title="x", question="x", axes=({"acks": ("all",)},))
_WITH_UNIT: Final = {"type": "string", "pattern": r"^\d+(\.\d+)? *[A-Za-z]*(/s)?$"}

Schema = dict[str, Any]


def experiment_schema() -> Schema:
    """Return the schema of a file with one experiment, of draft 2020-12."""
    schema = Experiment.model_json_schema(by_alias=True)
    shared, keys = schema["$defs"], schema["properties"]
    for model in dict.fromkeys(_inner_models(Experiment)):
        _describe(model, shared[model.__name__]["properties"])
    _describe(Experiment, keys)
    known = known_names(_ANY_NAME, librdkafka_rules())
    properties = {scope.value: sorted(known.in_scope(scope)) for scope in PROPERTY_SCOPES}
    offered = {
        **properties,
        "axes": [*STRUCTURE_AXES, *sorted(set(chain(*properties.values())))],
        "expect": [WHERE, *EXPECTABLE],
        "faults": sorted(FAULTS),
    }
    for key, names in offered.items():
        _offer(key, names, keys[key], shared)
    keys["alert_on"]["items"]["examples"] = [*ALERTS, "void>20%"]
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        **schema,
        "title": "Experiment of ackbench",
        "description": inspect.getdoc(Experiment),
    }


def _offer(key: str, names: Iterable[str], written: Schema, shared: Schema) -> None:
    """Name the known keys of a mapping, or of one in a list; each may have what any key has.

    Args:
        key: of the experiment.
        names: the keys of its mapping.
        written: its schema.
        shared: gets what is used more than once.
    """
    mapping = written["anyOf"][0] if "anyOf" in written else written
    shared[f"{key} value"] = mapping["additionalProperties"]
    one = {"$ref": f"#/$defs/{key} value"}
    mapping |= {"properties": dict.fromkeys(names, one), "additionalProperties": one}
    if "anyOf" in written:
        shared[key] = mapping
        again = {"$ref": f"#/$defs/{key}"}
        written["anyOf"] = [again, {"type": "array", "items": again}]


def _inner_models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for field in model.model_fields.values():
        for one in _models_in(field.annotation):
            yield one
            yield from _inner_models(one)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_in(argument)


def _describe(model: type[BaseModel], properties: Schema) -> None:
    """Give each key its docstring, and let a number with a unit in its name have one."""
    texts = dict(_docstrings(model))
    for name, field in model.model_fields.items():
        key = field.alias or name
        written = properties[key]
        written.pop("title", None)
        if has_unit(key) and written.get("type") in {"integer", "number"}:
            default = {"default": written.pop("default")} if "default" in written else {}
            written = properties[key] = {"anyOf": [written, _WITH_UNIT], **default}
        if name in texts:
            written["description"] = texts[name]


def _docstrings(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a model and its bases, each with the string that follows it."""
    for base in reversed(model.__mro__):
        if not issubclass(base, BaseModel) or base is BaseModel:
            continue
        (declared,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = declared.body if isinstance(declared, ast.ClassDef) else []
        for field, following in pairwise(body):
            match field, following:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    yield name, " ".join(text.split())
