"""Lessons: claims about Kafka, the findings of the sweeps that test them, and the tour.

A claim is part of an experiment of the catalogue. Its finding is a pure function of figures; what
the figures do not show stays inconclusive.
"""
