"""Consumers without a group: the concurrent consumer under test, the final read and replays."""
