"""What happened in a trial, and when: the event journal and the clock that stamps it. Nothing here knows what the events mean."""
