"""The home folder: its paths."""

from pathlib import Path

from infra.jvm.startup_cache import startup_cache
from infra.machine.home import Home


def test_a_home_whose_cache_is_a_link_uses_the_start_up_caches_of_the_other_home(
    tmp_path: Path,
) -> None:
    """The JVM would silently ignore them under other paths, and start slowly."""
    other, linked = Home(tmp_path / "other"), Home(tmp_path / "linked")
    other.cache.mkdir(parents=True)
    (other.cache / "kafka.jar").write_bytes(b"")
    linked.root.mkdir()
    (linked.root / "cache").symlink_to(other.cache)

    def cache_of(home: Home) -> Path:
        return startup_cache(home.cache, "kafka", [home.cache / "kafka.jar"], []).file

    assert cache_of(linked) == cache_of(other)
