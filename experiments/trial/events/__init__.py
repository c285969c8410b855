"""The events of a trial and the clock that stamps them. Their meaning is defined elsewhere."""
