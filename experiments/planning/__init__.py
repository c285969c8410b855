"""From an experiment file to a plan: axes, overrides, cells, trials, controls and what the machine must have. Nothing is started here."""
