"""A sweep as data: its plan, its folder, its copy in a store, its progress.

How a plan is made belongs to `experiments.planning`; how a trial runs, to `experiments.trial`.
"""
