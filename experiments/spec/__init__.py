"""Experiment -> cells -> trials. Pure: `model` is the file, `override` the command line's wishes, `planning` makes the plan."""
