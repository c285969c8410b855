"""The consumers: the concurrent consumer under test, the final read of the log, and replays."""
