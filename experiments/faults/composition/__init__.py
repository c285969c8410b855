"""Faults as an experiment asks for them, one or several: their notation, their joint effects, and their execution."""
