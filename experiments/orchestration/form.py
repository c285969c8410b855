"""The trigger form: Airflow draws it from these Params, and refuses what does not fit them."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import Param

NUMBERS = r"^ *\d+ *(, *\d+ *)*$"
AS_IT_IS = "Empty: as the experiment has it."


def form(experiments: Sequence[str], faults: Sequence[str], chosen: str) -> dict[str, Param]:
    """Return the fields; `experiments.orchestration.request` reads them.

    Args:
        experiments: the catalogue's names, offered beside any path of a YAML file.
        faults: the kinds of fault, to choose from.
        chosen: the experiment that is filled in.
    """
    return {
        "experiment": Param(
            chosen,
            type="string",
            minLength=1,
            title="Experiment",
            description="A name of the catalogue, or the path of a YAML file on the machine that runs the tasks.",
            examples=list(experiments),
        ),
        "acks": _choice("acks", ("0", "1", "all")),
        "idempotence": _choice("enable.idempotence", ("false", "true")),
        "replication_factor": _numbers("replication.factor"),
        "partitions": _numbers("partitions"),
        "fault": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "minLength": 1},
            examples=list(faults),
            title="fault",
            description=f"Axis; any of them. {AS_IT_IS} Joined faults and parameters go below: `fault=leader-crash(at_s=1) >> follower-pause`.",
        ),
        "client": _choice("client", ("librdkafka", "java")),
        "client_defaults": _choice("client.defaults", ("false", "true")),
        "rate_records_per_s": _number("Rate", "Records per second, of all producers together.", 10_000_000),
        "duration_s": _number("Duration", "Seconds of load in each trial.", 86_400),
        "repeats": _whole("Repeats", "Trials of each cell.", 1, 1024),
        "seed": _whole("Seed", "Decides keys, order and timing.", 0, 2**53 - 1),
        "controls": Param(
            "as the experiment has it",
            type="string",
            enum=["as the experiment has it", "on", "off"],
            title="Controls",
            description="A cell in which nothing may be lost, and one in which something must: whether the figures can be believed.",
        ),
        "set": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "pattern": "^[^=]+=.+$"},
            title="Other axes and properties",
            description="One a line: `linger.ms=0,50`, `workload.record_size_bytes=1000`, `broker.broker.session.timeout.ms=6000`.",
        ),
        "sweep_id": Param(
            None,
            type=["null", "string"],
            title="Sweep to go on with",
            description="Normally empty. The id of a sweep that was planned already: its missing trials are run, and the fields above are left alone.",
            section="Go on",
        ),
    }


def _choice(axis: str, values: Sequence[str]) -> Param:
    return Param(
        None,
        type=["null", "array"],
        items={"type": "string", "enum": list(values)},
        examples=list(values),
        title=axis,
        description=f"Axis; any of them. {AS_IT_IS}",
    )


def _numbers(axis: str) -> Param:
    return Param(None, type=["null", "string"], pattern=NUMBERS, title=axis, description=f"Axis; whole numbers, like `1,3`. {AS_IT_IS}")


def _number(title: str, description: str, maximum: float) -> Param:
    return Param(None, type=["null", "number"], exclusiveMinimum=0, maximum=maximum, title=title, description=f"{description} {AS_IT_IS}")


def _whole(title: str, description: str, minimum: int, maximum: int) -> Param:
    return Param(None, type=["null", "integer"], minimum=minimum, maximum=maximum, title=title, description=f"{description} {AS_IT_IS}")
