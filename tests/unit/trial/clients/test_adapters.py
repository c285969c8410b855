"""The adapters: their descriptions, and that one is built once per release of its library."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbench.experiments.messages.errors import ClientLibraryError, ExperimentError
from ackbench.experiments.trial.clients import adapters as module
from ackbench.experiments.trial.clients.adapters import (
    ADAPTERS,
    adapters,
    built_command,
    check_release,
    missing_toolchain,
)
from ackbench.experiments.trial.clients.settings.programs import ProgramLibrary
from ackbench.infra.errors import MachineError

LOCKS = ("requirements.txt", "go.sum", "package-lock.json")
BUILD = """#!/bin/sh
echo "$0 $1" >> "{log}"
mkdir -p "$2" && printf '#!/bin/sh\\n' > "$2/run" && chmod +x "$2/run"
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of adapters with one, `ours`, whose build notes that it ran."""
    folder = tmp_path / "adapters"
    (folder / "ours").mkdir(parents=True)
    (folder / "ours" / "adapter.json").write_text(
        '{"library": "ours", "language": "sh", "version": "1.2.0", "oldest": "1.1.0"}'
    )
    build = folder / "ours" / "build"
    build.write_text(BUILD.format(log=tmp_path / "builds"))
    build.chmod(0o755)
    monkeypatch.setattr(module, "ADAPTERS", folder)
    adapters.cache_clear()
    module._digest_of_source.cache_clear()
    yield folder
    adapters.cache_clear()
    module._digest_of_source.cache_clear()


@pytest.mark.parametrize("kind", adapters())
def test_each_adapter_has_what_its_description_says(kind: str) -> None:
    """A build, a lock, the settings that every trial passes, and a default that is allowed."""
    adapter = adapters()[kind]
    folder = ADAPTERS / kind
    assert os.access(folder / "build", os.X_OK)
    assert any(
        (folder / lock).exists() for lock in ("requirements.txt", "go.sum", "package-lock.json")
    )
    assert {"acks", "enable.idempotence"} <= adapter.producer.keys()
    check_release(kind, adapter.version)
    library = ProgramLibrary(adapter)
    assert library.passed_producer({}).keys() <= adapter.producer.keys()
    assert library.REQUIRED_CONSUMER_SETTINGS.keys() <= adapter.consumer.keys()


@pytest.mark.usefixtures("own")
def test_an_adapter_is_built_once_for_each_release(tmp_path: Path) -> None:
    """Each has a folder of its own, and `run` in it."""
    commands = [built_command(tmp_path, "ours", release) for release in ("1.2.0", "1.1.0", "1.2.0")]
    assert commands[0] == commands[2] != commands[1]
    assert Path(commands[0][0]).name == "run"
    assert len((tmp_path / "builds").read_text().splitlines()) == 2


def test_a_changed_source_is_built_again(own: Path, tmp_path: Path) -> None:
    """The old program would be named as the new one."""
    before = built_command(tmp_path, "ours", "1.2.0")
    (own / "ours" / "main.sh").write_text("changed")
    module._digest_of_source.cache_clear()
    assert built_command(tmp_path, "ours", "1.2.0") != before


@pytest.mark.usefixtures("own")
def test_an_interrupted_build_is_made_again(tmp_path: Path) -> None:
    """Its folder has no mark that it is complete."""
    (folder,) = {Path(built_command(tmp_path, "ours", "1.2.0")[0]).parent}
    (folder / "built.json").unlink()
    built_command(tmp_path, "ours", "1.2.0")
    assert (folder / "built.json").exists()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "#!/bin/sh\necho no such release >&2; exit 1\n",
            r"\(exit code 1\): no such release; its log: ",
        ),
        ("#!/bin/sh\nexit 0\n", r"\(it made no program\): it printed nothing; its log: "),
    ],
)
def test_a_build_that_fails_is_one_line_and_leaves_nothing(
    own: Path, tmp_path: Path, script: str, message: str
) -> None:
    """With the last line of its log."""
    (own / "ours" / "build").write_text(script)
    with pytest.raises(ClientLibraryError, match=message):
        built_command(tmp_path, "ours", "1.2.0")
    assert [path.suffix for path in (tmp_path / "adapters").glob("ours-*")] != [""]


def test_a_toolchain_that_is_missing_is_named(own: Path, tmp_path: Path) -> None:
    """Before the build is tried."""
    description = own / "ours" / "adapter.json"
    text = description.read_text().replace("}", ', "toolchain": ["no-such-compiler"]}')
    description.write_text(text)
    adapters.cache_clear()
    assert missing_toolchain("ours") == ("no-such-compiler",)
    with pytest.raises(MachineError, match="client ours needs no-such-compiler, which PATH"):
        built_command(tmp_path, "ours", "1.2.0")
    assert shutil.which("no-such-compiler") is None


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("version", ["1.0.9", "", "x", "../1.2.0", "1.2.0; rm", "1"])
def test_a_release_that_cannot_be_asked_for_is_refused(version: str) -> None:
    """It becomes a part of a path and of a command."""
    with pytest.raises(ExperimentError, match=r"allowed with client ours: a release of ours from"):
        check_release("ours", version)
