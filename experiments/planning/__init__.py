"""From an experiment file to a plan: axes, cells, overrides, settings, trials and controls.

Planning also checks what the machine must have. It starts neither clusters nor trials.
"""
