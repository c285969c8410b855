"""The kills of `make hostile`: every pair of a stage and a process, in the order of the stages."""

from collections import Counter

from hostile.kills import STAGES, Kill, chains

PAIRS = [Kill(stage, process) for stage, kinds in STAGES.items() for process in kinds]


def test_every_pair_of_a_stage_and_a_process_is_killed_equally_often() -> None:
    """As far as the number of kills is a multiple of the pairs."""
    kills = Counter(kill for chain in chains(3 * len(PAIRS), 1) for kill in chain)
    assert kills == dict.fromkeys(PAIRS, 3)


def test_a_sweep_is_killed_in_one_stage_after_the_other() -> None:
    """It is resumed after each kill, so the next one has to be in a later stage."""
    order = list(STAGES)
    for chain in chains(200, 1):
        stages = [order.index(kill.stage) for kill in chain]
        assert stages == sorted(set(stages))


def test_there_are_as_many_kills_as_requested() -> None:
    """Also where the last sweep has fewer."""
    assert sum(map(len, chains(50, 1))) == 50
