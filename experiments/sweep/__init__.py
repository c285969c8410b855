"""A sweep as data: its plan, its folder, its progress, the names of its cells.

How a plan is made belongs to `experiments.planning`; how a trial runs, to `experiments.trial`.
"""
