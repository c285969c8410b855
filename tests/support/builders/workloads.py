"""Random trials with consumer groups, with copiers, or with expired records."""

from __future__ import annotations

import json
import random
from dataclasses import replace

from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTransaction,
    PlantedTrial,
)


def random_group_trial(seed: int) -> PlantedTrial:
    """Return a random trial of two partitions with copies, corrupt rows, reads and commits."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    log = [
        PlantedLogRow(0, seq, offset, partition, intact=chance.random() > 0.05)
        for partition in (0, 1)
        for offset, seq in enumerate(
            chance.choices(range(partition, 300, 2), k=chance.randrange(1, 200))
        )
    ]
    taken = chance.choices(log, k=chance.randrange(0, 2 * len(log)))
    members = [
        PlantedRead(
            row.producer,
            row.seq,
            row.offset,
            0,
            chance.randrange(1, 10**9),
            row.partition,
            chance.randrange(1, 4),
            chance.randrange(3),
        )
        for row in taken
    ]
    committed = {partition: chance.randrange(0, 210) for partition in (0, 1)}
    events = [PlantedEvent(1, "group", detail=json.dumps({"committed": committed, "at_end": True}))]
    return PlantedTrial(
        f"{seed:03d}-random",
        [PlantedAttempt(0, seq) for seq in range(300)],
        log,
        members,
        events=events,
    )


def random_trial_with_groups(seed: int) -> PlantedTrial:
    """Return a random trial whose members are split into two groups, each with its own commits."""
    return replace(random_group_trial(seed), events=_split_into_groups(seed))


def _split_into_groups(seed: int) -> list[PlantedEvent]:
    chance = random.Random(1000 + seed)  # noqa: S311 - not for secrets
    groups = [
        {"group": group, "consumers": of, "committed": {of: chance.randrange(210) for of in (0, 1)}}
        for group, of in ((1, [1]), (2, [2, 3]))
    ]
    return [
        PlantedEvent(1, "consumer_end", detail=json.dumps({"at_end": True})),
        *(PlantedEvent(1, "group", detail=json.dumps(one)) for one in groups),
    ]


def random_copy_trial(seed: int) -> PlantedTrial:
    """Return a random trial with two partitions.

    Both logs have copies and corrupt rows, the output also rows of aborted transactions; copiers
    skip and repeat records, and some of their reports are wrong.
    """
    chance = random.Random(seed)  # noqa: S311 - not for secrets

    def log(ids: range, hidden: float) -> list[PlantedLogRow]:
        picked = [
            (partition, chance.choices(ids[partition::2], k=chance.randrange(1, 200)))
            for partition in (0, 1)
        ]
        return [
            PlantedLogRow(
                0,
                seq,
                offset,
                partition,
                intact=chance.random() > 0.05,
                visible=chance.random() >= hidden,
            )
            for partition, seqs in picked
            for offset, seq in enumerate(seqs)
        ]

    reports = [
        PlantedRead(0, seq, 0, consumer=chance.randrange(1, 3))
        for seq in chance.choices(range(300), k=chance.randrange(0, 200))
    ]
    committed = {partition: chance.randrange(0, 210) for partition in (0, 1)}
    events = [PlantedEvent(1, "group", detail=json.dumps({"committed": committed}))]
    stored, output = log(range(300), 0), log(range(300), 0.1)
    return PlantedTrial(
        f"{seed:03d}-random",
        [PlantedAttempt(0, seq) for seq in range(300)],
        stored,
        reports,
        events=events,
        output=output,
    )


def random_expired_trial(seed: int) -> PlantedTrial:
    """Return a random trial of two producers whose log's first records had expired.

    Some acknowledged records are not at the offset that was reported, and other records are, which
    may be hidden.
    """
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    attempts = [
        PlantedAttempt(
            producer,
            seq,
            chance.choice(["acked", "acked", "acked", "rejected", "unknown"]),
            partition=chance.randrange(2),
            offset=chance.choice([None, chance.randrange(20)]),
        )
        for producer in (0, 1)
        for seq in range(12)
    ]
    log = [
        PlantedLogRow(
            *chance.choice([(0, seq), (1, seq), (None, None)]),
            offset,
            partition,
            visible=chance.random() < 0.7,
        )
        for partition in (0, 1)
        for offset in sorted(chance.sample(range(20), k=8))
        for seq in (chance.randrange(14),)
    ]
    return PlantedTrial(
        f"{seed:03d}-expired",
        attempts,
        log,
        transactions=[PlantedTransaction(0, 0, "aborted")],
        begin_offsets={partition: chance.randrange(5, 20) for partition in (0, 1)},
    )
