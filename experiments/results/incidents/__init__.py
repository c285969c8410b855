"""An incident: what logs say happened, and the experiment that asks the same of a cluster."""
