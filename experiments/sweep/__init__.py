"""A sweep as data: its plan, its folder and its progress. How a plan is made belongs to `planning`; how a trial runs, to `trial`."""
