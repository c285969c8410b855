"""Trials that ran with several versions of librdkafka are not pooled without a word."""

from support.builders.hosts import hosted_trial
from support.golden_files import Says

from ackbench.experiments.results.client_versions import mixed_client_versions, version_sentences
from ackbench.experiments.results.models import TrialResult


def a_trial(number: int, acks: str, client: str | None) -> TrialResult:
    """Return a sealed trial of a cell that ran with a client's version."""
    trial = hosted_trial(number, acks, None, (5, 5))
    return trial.model_copy(update={"client": client})


def test_the_sentence_says_how_many_trials_ran_with_each_and_how_many_cells_mix_them(
    says: Says,
) -> None:
    """As after an upgrade between two parts of a sweep."""
    trials = [a_trial(n, "1", "2.14.0") for n in range(3)]
    trials += [a_trial(3, "1", "2.16.1"), a_trial(0, "all", "2.16.1")]
    found = mixed_client_versions(trials)
    assert found is not None
    assert (found.trials, found.cells, found.mixed_cells) == ({"2.14.0": 3, "2.16.1": 2}, 2, 1)
    (sentence,) = version_sentences(found)
    says(sentence)


def test_one_version_needs_no_sentence() -> None:
    """Nor do the versions of Java's client, which the plan has, and trials without a record."""
    trials = [a_trial(0, "1", "2.16.1"), a_trial(1, "1", "2.16.1"), a_trial(2, "1", None)]
    trials += [a_trial(0, "all", "java 4.2.1"), a_trial(1, "all", "java 4.3.1")]
    assert mixed_client_versions(trials) is None


def test_versions_that_the_cells_compare_need_no_sentence() -> None:
    """They are the question, and each cell has one."""
    trials = [
        a_trial(number, "1", client).model_copy(
            update={"cell": {"acks": 1, "client.version": client}}
        )
        for number, client in enumerate(("2.4.0", "2.10.0"))
    ]
    assert mixed_client_versions(trials) is None
