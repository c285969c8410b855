"""`make image`: build the OCI image of ackbench from Debian's packages and from verified wheels.

Nothing is pulled. mmdebstrap makes the root file system from the sources that apt on this machine
has of its own Debian release. pip fetches the wheels of `requirements/lock.txt` from where it is
set to look, and compares their digests. `podman build` then runs the `Containerfile` without a
network, so that no address, certificate or password of this machine is in the image.

A step that failed is repeated by the next call; what was fetched is in the caches of pip and of the
home.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import metadata, version
from pathlib import Path
from typing import Final

from ackbench.infra.errors import AckbenchError, HarnessError, InputError, MachineError
from ackbench.infra.kafka.jars import kafka_jars
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import CLONE, Home

PROGRAMS: Final = {"mmdebstrap": "mmdebstrap", "podman": "podman crun", "apt-get": "apt"}
"""Programs that are needed, and Debian's packages that bring them."""
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {"run": ("--extra", "run"), "check": ()}
"""The images, stages of the `Containerfile`, and what of pyproject.toml each installs."""
DEBIAN: Final = "localhost/ackbench-debian"
_PACKAGES: Final = (
    "?essential",
    "ca-certificates",
    "libstdc++6",
    "python3",
    "tini",
    "usr-is-merged",
)
"""All in one choice of apt's, so that `usr-is-merged` keeps `usrmerge` and Perl, 49 MB, out."""
_MERGED_USR: Final = "/usr/share/mmdebstrap/hooks/merged-usr"
_LEFT_OUT: Final = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*")
_MACHINES_OWN: Final = (
    *("etc/apt/apt.conf.d/99mmdebstrap", "etc/apt/sources.list.d/0000mmdebstrap.list"),
    *("etc/hostname", "etc/resolv.conf"),
)
"""Files that mmdebstrap writes from this machine's."""
_HOSTS: Final = "127.0.0.1 localhost"
"""A container without a network gets no such file while an image is built."""
_PROXY: Final = re.compile(r"^Acquire::https?::", re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build an image and print its name and size; return the exit code."""
    parser = argparse.ArgumentParser(prog="make image", description=__doc__.partition("\n")[0])
    parser.add_argument("--stage", choices=[*EXTRAS], help="which image (default: both)")
    parser.add_argument("--source", default="", help="address of the repository, for a label")
    options = parser.parse_args(arguments)
    try:
        clone = _require_clone()
        _require_programs()
        with tempfile.TemporaryDirectory(prefix="ackbench-image-") as folder:
            made = _Build(clone, Path(folder), options.source)
            stages = [options.stage] if options.stage else [*EXTRAS]
            for stage in stages:
                made.fetch_wheels(stage)
            made.import_debian()
            for stage in stages:
                name = made.build(stage)
                _say(f"built {name}: {_size_bytes(name) / 1e6:,.0f} MB")
    except AckbenchError as error:
        sys.stderr.write(f"image: {error}\n")
        return error.exit_code
    return 0


def image_name(stage: str) -> str:
    """Return the name of an image: `localhost/ackbench:0.1.0`, or `...-check`."""
    suffix = "" if stage == "run" else f"-{stage}"
    return f"localhost/ackbench:{version('ackbench')}{suffix}"


def locked(lock: str, names: frozenset[str]) -> str:
    """Return the entries of a lock file, with their digests, of some packages.

    Args:
        lock: requirements as uv writes them: `name==version`, and indented lines.
        names: of the packages.
    """
    entries = re.split(r"^(?=\S)", lock, flags=re.MULTILINE)
    return "".join(entry for entry in entries if entry.partition("==")[0] in names)


def debian_sources(targets: str, codename: str) -> Iterator[str]:
    """Yield lines of sources.list of Debian's own archives for one release.

    Args:
        targets: a line per source that apt has: address, suite, component, origin, codename.
        codename: of the release; `bookworm` has also `bookworm-updates`, `bookworm-security`.
    """
    for line in targets.splitlines():
        address, suite, component, origin, found = line.split()
        if origin == "Debian" and found.partition("-")[0] == codename:
            yield f"deb {address} {suite} {component}"


@dataclass(frozen=True)
class _Build:
    """The steps that make images."""

    clone: Path
    folder: Path
    """For what the recipe needs: a folder per stage, which `podman build` sees."""
    source: str

    def build(self, stage: str) -> str:
        """Build the image of a stage and return its name.

        Raises:
            HarnessError: a step failed; its own output is on standard error.
            MachineError: jars are missing and cannot be fetched.
        """
        context = self.folder / stage
        shutil.copy2(self.clone / ".venv" / "bin" / "uv", context)
        licences = context / "licences"
        licences.mkdir()
        shutil.copy2(self.clone / "requirements" / "sbom.json", licences)
        shutil.copy2(self.clone / "docs" / "licences.md", licences)
        if stage == "run":
            _copy_jars(context)
        name = image_name(stage)
        _say(f"building {name}")
        _run(
            *("podman", "build", "--network", "none", "--no-cache", "--quiet"),
            *("--target", stage, "--tag", name),
            *("--build-arg", f"BASE={DEBIAN}"),
            *("--build-arg", f"SOURCE_DATE_EPOCH={self._epoch()}"),
            *(word for label in self._labels() for word in ("--label", label)),
            *("--file", str(Path(__file__).with_name("Containerfile")), str(context)),
        )
        return name

    def fetch_wheels(self, stage: str) -> None:
        """Fetch the locked packages, with pip's indexes, certificates and proxies.

        Raises:
            HarnessError: as `build`.
        """
        _say(f"fetching the wheels of the image {stage}")
        context = self.folder / stage
        context.mkdir()
        names = _run(
            *(str(self.clone / ".venv" / "bin" / "uv"), "pip", "compile", "--quiet"),
            *("--no-header", "--no-annotate", "--no-emit-index-url", *EXTRAS[stage]),
            *("--constraint", "requirements/lock.txt", "pyproject.toml"),
            cwd=self.clone,
        )
        lock = (self.clone / "requirements" / "lock.txt").read_text()
        chosen = context / "locked.txt"
        chosen.write_text(
            locked(lock, frozenset(line.partition("==")[0] for line in names.splitlines()))
        )
        wheels = str(context / "wheels")
        pip = (
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels),
            "--use-pep517",  # PySpark is a source archive, and older versions of pip need it
        )
        _run(*pip, "--require-hashes", "--requirement", str(chosen))
        _run(*pip, "--no-build-isolation", ".", cwd=self.clone, epoch=self._epoch())

    def import_debian(self) -> None:
        """Make Debian's root file system, and import it as an image.

        Raises:
            HarnessError: as `build`.
            MachineError: apt has no source of this machine's Debian release.
        """
        release = _codename()
        targets = _run(
            "apt-get",
            "indextargets",
            *("--format", "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN) $(CODENAME)"),
            "Created-By: Packages",
        )
        sources = list(debian_sources(targets, release))
        if not sources:
            raise MachineError(
                f"apt on this machine has no source of Debian {release}: add one and call "
                "`apt-get update`"
            )
        _say(f"making Debian {release} (a minute)")
        archive = self.folder / "debian.tar"
        settings = _run("apt-config", "dump", '--format=%f "%v";%n', "Acquire")
        _run(
            *("mmdebstrap", "--quiet", "--variant=custom", f"--hook-dir={_MERGED_USR}"),
            *(f"--include={package}" for package in _PACKAGES),
            *(f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT),
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",
            *(f"--aptopt={line}" for line in settings.splitlines() if _PROXY.match(line)),
            *(f'--customize-hook=rm --force "$1"/{path}' for path in _MACHINES_OWN),
            f'--customize-hook=echo "{_HOSTS}" > "$1"/etc/hosts',
            *(release, str(archive), "-"),
            text="\n".join(sources) + "\n",
            epoch=self._epoch(),
        )
        _run("podman", "import", "--quiet", str(archive), DEBIAN)
        archive.unlink()

    def _epoch(self) -> str:
        """Return the time that files have: SOURCE_DATE_EPOCH, or the commit's."""
        named = os.environ.get("SOURCE_DATE_EPOCH")
        return named or _run("git", "log", "-1", "--format=%ct", cwd=self.clone).strip()

    def _labels(self) -> Iterator[str]:
        """Yield labels, by the names of the OCI image specification; none that is not known."""
        about = metadata("ackbench")
        revision = _run("git", "describe", "--always", "--dirty", "--abbrev=40", cwd=self.clone)
        labels = {
            "title": "ackbench",
            "description": about["Summary"],
            "version": version("ackbench"),
            "revision": revision.strip(),
            "source": self.source,
            "licenses": about["License-Expression"],
        }
        yield from (
            f"org.opencontainers.image.{name}={text}" for name, text in labels.items() if text
        )


def _copy_jars(context: Path) -> None:
    """Copy Kafka's jars, whose digests were compared when the home fetched them."""
    kafka = ClusterSpec().kafka_version
    folder = context / "jars" / kafka
    folder.mkdir(parents=True)
    for jar in kafka_jars(Home.from_environment().cache, kafka):
        shutil.copy2(jar, folder)


def _require_clone() -> Path:
    if CLONE is None:
        raise InputError("an image is built in a clone: this is an installation from a wheel")
    return CLONE


def _require_programs() -> None:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        packages = " ".join(PROGRAMS[name] for name in missing)
        raise MachineError(
            f"{', '.join(missing)}: not on PATH: "
            f"apt-get install --no-install-recommends {packages} (Debian 12 or newer)"
        )


def _codename() -> str:
    text = Path("/etc/os-release").read_text(encoding="utf-8")
    found = re.search(r"^VERSION_CODENAME=(\w+)", text, re.MULTILINE)
    return found[1] if found else ""


def _size_bytes(name: str) -> int:
    return int(_run("podman", "image", "inspect", "--format", "{{.Size}}", name))


def _run(
    *command: str, cwd: Path | None = None, text: str | None = None, epoch: str | None = None
) -> str:
    """Run a command and return its output.

    Raises:
        HarnessError: it failed; what it wrote to standard error is written to this process's.
    """
    environment = {**os.environ, **({"SOURCE_DATE_EPOCH": epoch} if epoch else {})}
    ran = subprocess.run(
        command, cwd=cwd, input=text, env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        sys.stderr.write(ran.stderr)
        raise HarnessError(
            f"`{' '.join(map(_short, command[:3]))} ...` failed with exit code {ran.returncode}, "
            "see above; the next call goes on with what was fetched"
        )
    return ran.stdout


def _short(word: str) -> str:
    return Path(word).name if word.startswith("/") else word


def _say(text: str) -> None:
    sys.stdout.write(f"image: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
