"""The findings of the claims: one module per claim, with a pure function `find`.

An experiment names the module of its claim under `claim.finding`. `find` computes the finding from
the figures of a sweep; it reads no file.
"""
