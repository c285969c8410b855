"""What ends a fault, or a part of one, before it bit."""

from __future__ import annotations


class Missed(Exception):
    """The fault found nothing to strike; the text says why. Whoever let it strike takes it for a fault that did not bite."""


class GivenUp(Exception):
    """Another part of the fault failed, or the trial was interrupted: this part goes no further, and heals."""
