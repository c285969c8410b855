"""The stalls of a trial, as rows and columns of result tables."""

from __future__ import annotations

from ackbench.spark_jobs.measures.measure import MeasuredTrial, OfEvents, Tables


class StallMeasure(OfEvents):
    """Times in which something other than Kafka and the fault kept processes from running."""

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's rows of `STALLS`, and for how long each side was stalled in the load.

        The load lasts until every record has settled. Null: unknown.
        """
        stalls, phases = trial.stalls, trial.manifest.phases
        sides = {"producer": stalls.any_producer, "consumer": stalls.consumer}
        load = phases.load_begin_ns, phases.settled_ns
        stalled_ns = {
            f"{side}_stalled_ns": spans.total_within_ns(*load) if stalls.sampling else None
            for side, spans in sides.items()
        }
        return {
            "trials": [stalled_ns],
            "stalls": [stall.model_dump(mode="json") for stall in stalls.stalls],
        }
