"""The OCI image of ackbench: a recipe, and what `make image` gives to it.

Nothing here runs in the image or in a sweep; the image has the wheel, as any installation.
"""
