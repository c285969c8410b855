"""The lessons: one file of data per claim, or a module with a pure function `find`.

An experiment names the file of its claim under `claim.finding`. A module is for a lesson whose
figures take more than one trial, such as the steps of the median outage; `find` computes the
finding from the figures of a sweep, and reads no file.
"""
