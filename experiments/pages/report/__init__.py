"""The HTML pages: the report of a sweep, the comparison page, and the page of a tour.

A page is one file that loads nothing. It is made from the sweep's folder alone, so that it can be
made again at any time, and equal folders give equal bytes. Figures are computed in
`experiments.results` and `experiments.results.comparing`, not here. The words and signs of verdicts
are in `experiments.results.wording`, which the terminal uses as well.
"""
