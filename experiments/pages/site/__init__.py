"""Pages over many sweeps, and the static site that links them: index, trends, what breaks what.

The page of one sweep is in `experiments.pages.report`; its style sheet and base template are used
here.
"""
