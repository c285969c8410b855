"""The command `ackbench`: its subcommands, their options and exit codes.

`experiments.commands` has one module per subcommand. Each is imported when it is needed, so that
`ackbench --help` is fast.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ackbench.experiments.commands.settings_as_options import TakesSettings
from ackbench.experiments.messages.phrases import fit_line, shorten
from ackbench.experiments.messages.terminal import echo, echo_error
from ackbench.experiments.sweep.client_kinds import LIBRARIES
from ackbench.infra.errors import AckbenchError, HarnessError, MachineError
from ackbench.infra.machine.home import (
    INSTALL,
    INSTALL_CLUSTER,
    INSTALL_READ,
    Home,
    keep_files_private,
)
from ackbench.infra.machine.paths import machine_error_of, require_writable_file, user_path
from ackbench.infra.start import CLUSTER_PACKAGES, READ_PACKAGES, RUN_PACKAGES, missing_library

if TYPE_CHECKING:
    from ackbench.experiments.trial.clients.programs.dialect import Role

INTERRUPTED: Final = 130
"""128 + SIGINT, as shells report it."""
FAIL_ON: Final = (
    "Exit with code 3 on: violated (a guarantee was violated), unknown (no verdict is possible). "
    "May be repeated."
)


class _OutputFile(click.ParamType[Path]):
    """A file to write, checked before anything is done; `~` is the user's home."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path of a regular file that can be written or created."""
        del ctx
        path = user_path(str(value))
        require_writable_file(path, param.opts[-1] if param else "file")
        return path


_FILE = click.Path(path_type=Path)
_OUTPUT: Final = _OutputFile()
_MASTER = click.option(
    "--master",
    metavar="URL",
    help="Spark's master for measuring, such as spark://HOST:7077 (default: this machine).",
)
_CONF = click.option(
    "--conf",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of Spark, such as spark.executor.memory=2g. May be repeated.",
)


_HISTORY_STORE = click.option(
    "--store",
    metavar="URI",
    help="Also the sweeps that are published in this store (default: ACKBENCH_STORE).",
)


_METRICS_PORT = click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve figures of the trial under way as OpenMetrics on this port of 127.0.0.1.",
)


class OneLineErrors(click.Group):
    """A group whose errors are one line on stderr and an exit code, never a traceback.

    Exit code 2: the user can fix it. 1: the harness failed.
    """

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and end the process with its exit code."""
        kwargs["standalone_mode"] = False
        given = kwargs.pop("args", args[0] if args else None)
        given = sys.argv[1:] if given is None else list(given)
        try:
            _require_text(given)
            code = super().main(_without_help(given), *args[1:], **kwargs)
        except click.UsageError as error:
            sys.exit(_print_error(_usage(error), error.exit_code))
        except click.ClickException as error:
            sys.exit(_print_error(error.format_message(), error.exit_code))
        except (click.Abort, KeyboardInterrupt):
            sys.exit(_print_error("interrupted", INTERRUPTED))
        except AckbenchError as error:
            sys.exit(_print_error(str(error), error.exit_code))
        except ImportError as error:
            text = _missing_part(error, given)
            if text is None:
                raise
            sys.exit(_print_error(text, MachineError.exit_code))
        except OSError as error:
            from ackbench.infra.machine.resources import full_disk

            root = Home.from_environment().root
            full, machine_error = full_disk(error, root), machine_error_of(error, root)
            if full is None and machine_error is None:
                raise
            text = f"{error}; {full}" if full else str(machine_error)
            sys.exit(_print_error(text, MachineError.exit_code))
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named; of an unknown one, suggest three.

        If a word of a question is a setting or a fault, what is known of it comes first.

        Raises:
            click.UsageError: there is no such command.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from ackbench.experiments.commands.why import command_about

            about = next(filter(None, map(command_about, args)), None)
            nearest = ", ".join(
                f"`{ctx.command_path} {name}` ({self.commands[name].short_help})"
                for name in _nearest_commands(self, args)
            )
            raise click.UsageError(
                f"no command {shorten(args[0])}; {f'{about}; ' if about else ''}nearest: {nearest}",
                ctx,
            ) from error


def _missing_part(error: ImportError, arguments: Sequence[str]) -> str | None:
    """Return what must be installed, a package or a library of the system; `None`: neither."""
    if library := missing_library(error):
        return (
            f"the library {library} of the system is missing, which a package needs: install it, "
            "for example with `apt-get install libstdc++6`"
        )
    package = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or package not in {*READ_PACKAGES, *RUN_PACKAGES}:
        return None
    return (
        f"this needs the package {package}, which this installation does not have: "
        f"{_installs(package, arguments)} installs it"
    )


def _without_help(arguments: list[str]) -> list[str]:
    """Return the arguments with `help` and `help COMMAND` as the option that people mean."""
    return [*arguments[1:2], "--help"] if arguments[:1] == ["help"] else arguments


def _require_text(arguments: Sequence[str]) -> None:
    """Refuse bytes that are not UTF-8, which Python hands on as halves of surrogate pairs."""
    for number, argument in enumerate(arguments, 1):
        try:
            argument.encode()
        except UnicodeEncodeError:
            shown = shorten(ascii(argument))
            raise click.UsageError(f"argument {number} is not UTF-8 text: {shown}") from None


_RUN_COMMANDS: Final = frozenset(
    {"doctor", "measure", "run", "selftest", "setup", "status", "step", "stop", "tour", "up"}
)
"""Commands that need all packages, whichever they miss first."""


def _installs(package: str, arguments: Sequence[str]) -> str:
    """Return the command that installs a package, with what the command of the user needs too."""
    command = next((word for word in arguments if not word.startswith("-")), "")
    if command not in _RUN_COMMANDS:
        if command == "cluster" or package in CLUSTER_PACKAGES:
            return INSTALL_CLUSTER
        if package in READ_PACKAGES:
            return INSTALL_READ
    return INSTALL


def _print_error(text: str, code: int) -> int:
    """Print the error; return the exit code."""
    line = text if code == HarnessError.exit_code else fit_line(text)
    echo_error(f"ackbench: {line}")
    return code


def _usage(error: click.UsageError) -> str:
    command = error.ctx.command_path if error.ctx else "ackbench"
    return f"{error.format_message()} (`{command} --help`)"


def _nearest_commands(group: click.Group, args: Sequence[str]) -> list[str]:
    """Return the three commands that a name, or a question in words, is most like."""
    words = {
        _SAME.get(word, word)
        for argument in args
        for word in re.findall(r"[a-z]+", argument.lower())
        if word not in _COMMON
    }

    def likeness(name: str) -> tuple[int, float]:
        command = group.commands[name]
        text = f"{command.short_help or ''} {command.help or ''}".lower()
        described = re.findall(r"[a-z]+", text)
        said = sum(any(_is_form_of(word, other) for other in described) for word in words)
        named = sum(_is_form_of(word, name) for word in words)
        return said + 2 * named, SequenceMatcher(None, args[0], name).ratio()

    return sorted(group.commands, key=likeness, reverse=True)[:3]


def _is_form_of(word: str, other: str) -> bool:
    """Return whether two words differ in their endings only: `lost`, `losses`; `run`, `runs`."""
    stem = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False))))
    return stem >= _STEM and {word[stem:], other[stem:]} <= _ENDINGS


_STEM: Final = 3
_ENDINGS: Final = frozenset({"", "d", "e", "ed", "es", "ing", "s", "ses", "se", "t"})
_COMMON: Final = frozenset({"a", "do", "how", "i", "in", "is", "it", "of", "the", "to", "what"})
"""Words of a question that say nothing of a command."""
_SAME: Final = {
    "broker": "cluster",
    **dict.fromkeys(("catalog", "catalogue", "experiments"), "list"),
    "history": "trend",
    "result": "show",
    "results": "show",
    "test": "run",
    **dict.fromkeys(("lose", "loss", "losses", "lost", "duplicate", "duplicated"), "guarantee"),
}
"""Words of questions, and the word of the command that answers them."""


EXAMPLES = """
\b
Examples:
  ackbench explain acks-levels                     its claim and its method
  ackbench run quick                               the quick sweep
  ackbench run quick --set acks=1,all --repeats 5  a part of it, more trials
  ackbench run mine.yaml                           your own experiment
  ackbench show --json                             the newest finished sweep as JSON
  ackbench open report                             its report
  ackbench compare A B                             two sweeps side by side
  ackbench compare A --by acks                     the cells of one
  ackbench faults                                  the faults of this machine
"""


FIRST_STEPS = """\
ackbench tests what Kafka loses and duplicates when brokers fail, by setting.

  ackbench setup                 make what sweeps need, once
  ackbench run quick --dry-run   what the quick sweep runs, and for how long
  ackbench run quick             run it, on a cluster of its own
  ackbench open report           its report
  ackbench list                  the other experiments
  ackbench doctor                what this machine can do, and what is missing
  ackbench --help                all commands\
"""


@click.group(
    cls=OneLineErrors,
    epilog=EXAMPLES,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="ackbench", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Which records do Kafka's settings lose or duplicate, and how long is a partition unavailable?

    Each experiment injects faults into a real cluster, records the fate of every record, and
    answers one question.
    """
    if context.invoked_subcommand is None:
        echo(FIRST_STEPS)


@cli.command(
    cls=TakesSettings,
    short_help="Run an experiment and show its results.",
    epilog="""
\b
Examples:
  ackbench run quick
  ackbench run quick --acks 1 --partitions 1 --repeats 5
  ackbench run quick --fault leader-crash,leader-pause --linger.ms 0,50
  ackbench run quick --set workload.duration_s=20s
  ackbench run quick --acks all --expect lost=0 --expect "unavailable_ms<5s"
  ackbench run quick --set acks=1,all --until "ci<0.3" --budget 30m
  ackbench run quick --repeats 29 --dry-run
  ackbench run --resume quick-20260102T030405-ab12
  ackbench run mine.yaml --resume s3://bucket/sweeps/mine-20260102T030405-ab12
  ackbench run quick --store s3://bucket/sweeps
""",
)
@click.argument("experiment", required=False)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="AXIS=V1[,V2...]",
    help="Values for an axis, a property or workload.*; several values make it an axis. "
    "--AXIS V1,V2 is the same: --acks 1,all.",
)
@click.option("--repeats", type=int, metavar="N", help="Trials per cell.")
@click.option("--seed", type=int, metavar="N", help="Determines keys, order and timing.")
@click.option(
    "--no-controls",
    is_flag=True,
    help="Omit the control, which must lose nothing, and the positive control, which must lose.",
)
@click.option(
    "--until",
    metavar="ci<WIDTH",
    help="Add repeats until the 95 % intervals of loss and duplicates are narrower than WIDTH.",
)
@click.option(
    "--budget",
    metavar="TIME",
    help="With --until: start no round that would end later; 90s, 30m, 2h.",
)
@click.option(
    "--max-repeats", type=int, metavar="N", help="With --until: at most N trials per cell (100)."
)
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="BOUND",
    help="Exit with code 3 unless each cell meets it: lost=0, 'unavailable_ms<5s', "
    "'ack_p99_ms<=50ms'. May be repeated; as `expect` in the file, for all cells.",
)
@click.option("--fail-on", "fail_on", multiple=True, metavar="WHAT", help=FAIL_ON)
@click.option("--junit", type=_OUTPUT, metavar="FILE", help="Also write JUnit's XML.")
@click.option("--markdown", type=_OUTPUT, metavar="FILE", help="Also write a job summary.")
@click.option("--json", "as_json", type=_OUTPUT, metavar="FILE", help="Also write JSON.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the trials, and the time, memory and disk that they take; start nothing.",
)
@click.option(
    "--resume",
    metavar="SWEEP",
    help="Run the missing trials of an interrupted sweep; also with --until. "
    "Of one that several hosts run: its URI. With EXPERIMENT: its file permits what it says, "
    "if another home has made the plan.",
)
@click.option(
    "--store",
    metavar="URI",
    help="Publish sealed trials and results to this folder, file://, s3://, gs:// or abfs:// URI "
    "(default: ACKBENCH_STORE).",
)
@_METRICS_PORT
@click.option("--no-live", is_flag=True, help="Write no page of the trial under way.")
@_MASTER
@_CONF
def run(
    experiment: str | None,
    overrides: tuple[str, ...],
    repeats: int | None,
    seed: int | None,
    no_controls: bool,
    until: str | None,
    budget: str | None,
    max_repeats: int | None,
    expected: tuple[str, ...],
    fail_on: tuple[str, ...],
    junit: Path | None,
    markdown: Path | None,
    as_json: Path | None,
    dry_run: bool,
    resume: str | None,
    store: str | None,
    metrics_port: int | None,
    no_live: bool,
    master: str | None,
    settings: tuple[str, ...],
) -> int:
    """Run EXPERIMENT, a name from `ackbench list` or a YAML file, and print its results.

    Exit code 0: every trial ended, whether or not Kafka lost records. 1: the harness failed, or
    not everything is published to --store. 2: invalid request. 3: --fail-on, or a cell is not as
    the experiment or --expect expects.
    """
    from ackbench.experiments.commands import run as command
    from ackbench.experiments.commands.show import Reporting, ResultFiles
    from ackbench.experiments.pages.live.process import LiveOptions
    from ackbench.experiments.planning.expectations import parse_expected
    from ackbench.experiments.planning.overrides import Overrides
    from ackbench.experiments.results.comparing.gate import Gate
    from ackbench.experiments.sweep.spark_master import configure_spark

    configure_spark(master, settings)
    home = Home.from_environment()
    if no_live and metrics_port:
        raise click.UsageError("--metrics-port needs what --no-live leaves out: give one of them")
    live = LiveOptions(page=not no_live, metrics_port=metrics_port)
    limits = command.limits_of(until, budget, max_repeats)
    reporting = Reporting(Gate.parse(fail_on), ResultFiles(junit, markdown, as_json))
    if resume:
        if overrides or expected or repeats is not None or seed is not None or no_controls:
            raise click.UsageError("--resume runs a sweep as it was planned: give no other option")
        if dry_run:
            raise click.UsageError("--dry-run plans a new sweep: give no --resume")
        return command.resume(home, resume, limits, reporting, store, live, experiment)
    if not experiment:
        raise click.UsageError(
            "name an experiment: `ackbench list` shows them; a file's name ends in .yaml"
        )
    changes = Overrides(
        command.axes_of(overrides),
        repeats,
        seed,
        controls=False if no_controls else None,
        expect=parse_expected(expected),
    )
    if dry_run:
        return command.dry_run(home, experiment, changes, limits)
    return command.run_new(home, experiment, changes, limits, reporting, store, live)


@cli.command(
    cls=TakesSettings,
    short_help="Run one step of a sweep, as a task of a scheduler.",
    epilog="""
\b
Examples:
  ackbench step plan mine.yaml --acks 1,all --json plan.json
  ackbench step provision mine-20260102T030405-ab12
  ackbench step trial mine-20260102T030405-ab12
""",
)
@click.argument("name", metavar="STEP")
@click.argument("given", metavar="SWEEP|EXPERIMENT")
@click.option(
    "--set", "overrides", multiple=True, metavar="AXIS=V1[,V2...]", help="plan: as of `run`."
)
@click.option("--repeats", type=int, metavar="N", help="plan: trials per cell.")
@click.option("--expect", "expected", multiple=True, metavar="BOUND", help="plan: as of `run`.")
@click.option("--planned", metavar="JSON", help="trial: an element of what list_trials returns.")
@click.option("--refused", metavar="REASON", help="alert: why EXPERIMENT was not planned.")
@click.option(
    "--json",
    "as_json",
    type=_OUTPUT,
    metavar="FILE",
    help="Write what the step hands on to this file (default: standard output).",
)
def step(
    name: str,
    given: str,
    overrides: tuple[str, ...],
    repeats: int | None,
    expected: tuple[str, ...],
    planned: str | None,
    refused: str | None,
    as_json: Path | None,
) -> int:
    """Run STEP of SWEEP in this process: a task of the DAG, without Airflow.

    STEP is plan (of EXPERIMENT), list_trials, provision, trial, destroy, measure, report, track,
    verify, alert or finish. Exit code 99: the step trial found nothing to run.
    """
    from ackbench.experiments.commands.machine import step as command

    request = command.StepRequest(given, overrides, repeats, expected, planned, refused)
    return command.step(name, request, as_json)


@cli.command(short_help="Say what runs in the home.")
def status() -> int:
    """Print the sweeps in progress, the clusters by hand and the services of the home."""
    from ackbench.experiments.commands.machine import status as command

    return command.status(Home.from_environment())


@cli.command(
    short_help="End a sweep that is in progress.",
    epilog="""
\b
Examples:
  ackbench stop
  ackbench stop quick-20260102T030405-ab12
""",
)
@click.argument("sweep", required=False)
def stop(sweep: str | None) -> int:
    """End SWEEP (the one in progress) as Ctrl-C does; what is sealed is kept.

    The fault is healed and the brokers end; `ackbench run --resume` goes on.
    """
    from ackbench.experiments.commands.machine import status as command

    return command.stop(Home.from_environment(), sweep)


@cli.command(
    short_help="Test the lessons' claims, on one page.",
    epilog="""
\b
Examples:
  ackbench tour
  ackbench tour --quick
  ackbench tour --lessons 5,8-9
  ackbench tour --resume newest
  ackbench tour --resume newest --lessons 8 --repeats 10
  ackbench tour --resume newest --chapters docs/lessons
""",
)
@click.option(
    "--lessons",
    metavar="N[,N-M...]",
    help="Only these lessons, as in 1,5-8; with --resume: test these again.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Trials per cell (default: as each experiment has it).",
)
@click.option(
    "--quick",
    is_flag=True,
    help="About an hour: 3 repeats, short cells, few controls; answers are less certain.",
)
@click.option("--resume", metavar="TOUR", help="Resume an interrupted tour, or `newest`.")
@click.option(
    "--chapters",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Also write the answers as Markdown chapters.",
)
def tour(
    lessons: str | None, repeats: int | None, quick: bool, resume: str | None, chapters: Path | None
) -> int:
    """Test the lessons' claims one after the other and make one page of the answers.

    Exit code 0: every claim that this machine can test has an answer. 1: the harness failed.
    2: invalid request.
    """
    from ackbench.experiments.commands import tour as command

    home = Home.from_environment()
    if resume and repeats and not lessons:
        raise click.UsageError(
            "--repeats with --resume needs --lessons: it applies to lessons that are tested again"
        )
    if resume and quick:
        raise click.UsageError("--quick with --resume: a tour keeps the kind it was started as")
    return (
        command.resume(home, resume, lessons, repeats, chapters)
        if resume
        else command.tour(home, lessons, repeats, chapters, quick=quick)
    )


@cli.command(
    short_help="Make an experiment of an incident's logs.",
    epilog="""
\b
Examples:
  ackbench reproduce server-*/server.log controller.log app.log producer.properties
  ackbench reproduce logs/ --from "2026-11-27 18:05" --to "2026-11-27 18:20" --topic orders
""",
)
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
@click.option("--from", "begin", metavar="MOMENT", help="Leave out what was before.")
@click.option("--to", "end", metavar="MOMENT", help="Leave out what was after.")
@click.option(
    "--zone", default="Z", metavar="ZONE", help="Of moments without one, as in +02:00 (Z, UTC)."
)
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only these topics.")
@click.option(
    "--in-question",
    "guarantee",
    type=click.Choice(["lost", "duplicates", "reordered"]),
    default="lost",
    help="What is to be 0 (lost).",
)
@click.option(
    "--out", type=_OUTPUT, default="incident.yaml", metavar="FILE", help="(incident.yaml)"
)
@click.option("--all", "in_full", is_flag=True, help="Print the whole timeline.")
def reproduce(
    files: tuple[Path, ...],
    begin: str | None,
    end: str | None,
    zone: str,
    topics: tuple[str, ...],
    guarantee: str,
    out: Path,
    in_full: bool,
) -> int:
    """Say what logs say happened, and write the experiment that asks the same of a cluster.

    FILEs are logs of brokers, controllers and clients, and configuration files, or folders.
    """
    from ackbench.experiments.commands import reproduce as command
    from ackbench.experiments.results.incidents.lines import zone_of
    from ackbench.experiments.results.incidents.logs import Window

    ahead = zone_of(zone)
    window = Window(
        command.moment_of(begin, "--from", ahead) if begin else None,
        command.moment_of(end, "--to", ahead) if end else None,
    )
    return command.reproduce(
        files, window, zone=ahead, topics=topics, guarantee=guarantee, out=out, in_full=in_full
    )


@cli.command(
    short_help="Print the schema of experiment files.",
    epilog="""
\b
Example:
  ackbench schema experiment > experiment.schema.json
  # and as first line of a file:
  # yaml-language-server: $schema=experiment.schema.json
""",
)
@click.argument("what", type=click.Choice(["experiment"]), default="experiment")
def schema(what: str) -> int:
    """Print the JSON Schema of WHAT, by which editors complete and check a file."""
    from ackbench.experiments.commands import catalog as command

    del what
    return command.print_schema()


@cli.command("list", short_help="List the experiments.")
def list_() -> int:
    """List the experiments of the catalogue."""
    from ackbench.experiments.commands.experiment_list import list_experiments

    return list_experiments()


@cli.command(short_help="Explain an experiment: claim, method, cells.")
@click.argument("experiment")
def explain(experiment: str) -> int:
    """Explain EXPERIMENT: its question, claim, mechanism, method and what would refute it."""
    from ackbench.experiments.commands import catalog as command

    return command.explain(experiment)


@cli.command(
    short_help="List the faults, or explain one.",
    epilog="""
\b
Examples:
  ackbench faults
  ackbench faults network
  ackbench faults leader-crash-behind
""",
)
@click.argument("fault", required=False)
def faults(fault: str | None) -> int:
    """List the faults, those of a family, or the parameters of one FAULT; and what is missing here.

    FAULT is a fault, a family (network, disk, ...), or a part of names (crash).
    """
    from ackbench.experiments.commands import faults as command

    return command.print_faults(fault)


@cli.command(
    short_help="Say where a setting decides something.",
    epilog="""
\b
Examples:
  ackbench why acks=1
  ackbench why min.insync.replicas
""",
)
@click.argument("setting")
def why(setting: str) -> int:
    """List the rules of the contract, the experiments and the stored sweeps that SETTING decides.

    SETTING is a property or an axis, with or without a value.
    """
    from ackbench.experiments.commands import why as command

    return command.why(Home.from_environment(), setting)


@cli.command(
    short_help="Say what given settings guarantee, before any sweep.",
    epilog="""
\b
Examples:
  ackbench check docker-compose.yml application.yml
  ackbench check --producer producer.properties --replication-factor 3
  ackbench check --broker server.properties --topic topic.properties \\
    --producer producer.properties --fail-on no-acked-loss:leader-crash
  ackbench check --bootstrap localhost:9092 --topic-name orders \\
    --producer producer.properties
""",
)
@click.argument("given_files", nargs=-1, type=_FILE, metavar="[FILE]...")
@click.option("--broker", type=_FILE, metavar="FILE", help="Properties of the brokers.")
@click.option("--topic", type=_FILE, metavar="FILE", help="Properties of the topic.")
@click.option("--producer", type=_FILE, metavar="FILE", help="Properties of the producer.")
@click.option("--consumer", type=_FILE, metavar="FILE", help="Properties of a group's members.")
@click.option(
    "--client",
    type=click.Choice(sorted(LIBRARIES)),
    help="Whose defaults the clients have (default: whose names the files have).",
)
@click.option(
    "--bootstrap",
    metavar="HOST:PORT,...",
    help="Read the settings of a running cluster's brokers instead of --broker. Changes nothing.",
)
@click.option(
    "--topic-name",
    metavar="NAME",
    help="With --bootstrap: read the settings of this topic instead of --topic.",
)
@click.option(
    "--command-config",
    metavar="FILE",
    help="With --bootstrap: properties with the security of the connection.",
)
@click.option("--kafka-version", metavar="VERSION", help="Of the brokers (default: the newest).")
@click.option("--nodes", type=click.IntRange(1, 9), help="Brokers (default: 3).")
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 9),
    help="Of the topic (default: the brokers' default.replication.factor).",
)
@click.option("--strict", is_flag=True, help="Refuse names that Kafka does not know.")
@click.option(
    "--policy",
    type=_FILE,
    metavar="FILE",
    help="Exit with code 3 if a rule of this YAML file is broken (docs/check.md).",
)
@click.option(
    "--fix", is_flag=True, help="Write each FILE again, as NAME.fixed, with safer settings."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--junit", type=_OUTPUT, metavar="FILE", help="Also write JUnit's XML.")
@click.option(
    "--fail-on",
    "fail_on",
    multiple=True,
    metavar="GUARANTEE[:FAULT]",
    help="Exit with code 3 if it is not guaranteed. May be repeated.",
)
def check(
    given_files: tuple[Path, ...],
    client: Any,
    bootstrap: str | None,
    topic_name: str | None,
    command_config: str | None,
    kafka_version: str | None,
    nodes: int | None,
    replication_factor: int | None,
    strict: bool,
    policy: Path | None,
    fix: bool,
    as_json: bool,
    junit: Path | None,
    fail_on: tuple[str, ...],
    **files: Path | None,
) -> int:
    """Say what Kafka guarantees with the settings of FILEs, under each fault.

    A FILE is what people have: properties of Kafka's or librdkafka's, Docker Compose, Kubernetes,
    Strimzi, Spring, Quarkus, Kafka Connect, log shippers, source code; its content says which. What
    it does not set has its default. No cluster is started; one is contacted only with --bootstrap.
    """
    from ackbench.experiments.commands import check as command
    from ackbench.experiments.results.checkup.assembly import configuration_of
    from ackbench.experiments.results.checkup.files.found import SCOPES
    from ackbench.experiments.results.checkup.files.reading import read_file

    given = {scope: path for scope, path in files.items() if path is not None}
    cluster = command.cluster_of(
        bootstrap,
        topic_name,
        command_config,
        {
            "--broker": "broker" in given,
            "--nodes": nodes is not None,
            "--topic": topic_name is not None and "topic" in given,
            "--replication-factor": topic_name is not None and replication_factor is not None,
        },
    )
    reported = cluster.kafka_version if cluster else None
    found = [read_file(path) for path in given_files]
    found += [read_file(given[scope], (scope,)) for scope in SCOPES if scope in given]
    configuration = configuration_of(
        found,
        kafka_version=kafka_version or reported,
        client=client,
        nodes=nodes,
        replication_factor=replication_factor,
        cluster=cluster,
        strict=strict,
    )
    home = Home.from_environment()
    return command.check(
        home,
        configuration,
        found,
        as_json=as_json,
        junit=junit,
        fail_on=fail_on,
        policy=policy,
        fix=fix,
    )


@cli.command(
    short_help="Show the results of a sweep.",
    epilog="""
\b
Examples:
  ackbench show
  ackbench show --all
  ackbench show quick-20260102T030405-ab12 --json | jq '.cells[] | {cell, lost}'
  ackbench show s3://bucket/sweeps/quick-20260102T030405-ab12
""",
)
@click.argument("sweep", required=False)
@click.option(
    "--all", "in_full", is_flag=True, help="Also settings, controls, power and what columns mean."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/show-json.md).")
@click.option("--junit", type=_OUTPUT, metavar="FILE", help="Also write JUnit's XML.")
@click.option("--markdown", type=_OUTPUT, metavar="FILE", help="Also write a job summary.")
def show(
    sweep: str | None, in_full: bool, as_json: bool, junit: Path | None, markdown: Path | None
) -> int:
    """Show the results of SWEEP: an id, a folder, a URI, or an experiment.

    An experiment, or no SWEEP at all, is the newest sweep whose run has ended, complete or not.
    """
    from ackbench.experiments.commands import show as command

    files = command.ResultFiles(junit=junit, markdown=markdown)
    home = Home.from_environment()
    return command.show(home, sweep, as_json=as_json, files=files, in_full=in_full)


@cli.command(short_help="Measure a sweep again from its ledgers.")
@click.argument("sweep")
@click.option(
    "--skip-unfit",
    is_flag=True,
    help="Leave out trials whose ledgers are incomplete or were altered, and name them.",
)
@_MASTER
@_CONF
def measure(sweep: str, skip_unfit: bool, master: str | None, settings: tuple[str, ...]) -> int:
    """Measure SWEEP again from its ledgers and show the results.

    SWEEP is as in `ackbench show`. At a URI the results are written there.
    """
    from ackbench.experiments.commands import show as command
    from ackbench.experiments.sweep.spark_master import configure_spark

    configure_spark(master, settings)
    return command.measure_again(Home.from_environment(), sweep, skip_unfit=skip_unfit)


@cli.command(
    short_help="Render a sweep's report again.",
    epilog="""
\b
Examples:
  ackbench report
  ackbench report quick-20260102T030405-ab12
""",
)
@click.argument("sweep", required=False)
@click.option("--fail-on", "fail_on", multiple=True, metavar="WHAT", help=FAIL_ON)
def report(sweep: str | None, fail_on: tuple[str, ...]) -> int:
    """Render the report of SWEEP (the newest) again and print its path.

    SWEEP is as in `ackbench show`. The page of a sweep at a URI is written below the home.

    Exit code 3: the sweep does not pass --fail-on, or is not as its experiment expects; one line
    per reason.
    """
    from ackbench.experiments.commands import show as command

    return command.report(Home.from_environment(), sweep, fail_on)


@cli.group(
    "client", no_args_is_help=False, short_help="Check a program that is to be tested as a client."
)
def client() -> None:
    """Work with programs that are clients under test (docs/clients.md)."""


@client.command(
    "check",
    short_help="Say what a program does, and what it lacks.",
    context_settings={"ignore_unknown_options": True},
    epilog="""
\b
Examples:
  ackbench client check -- ./my-verifiable-client
  ackbench client check --role producer -- python3 my_client.py --threads 4
  ackbench client check franz-go --version 1.20.6
""",
)
@click.option("--role", type=click.Choice(["producer", "consumer"]), help="Check this role only.")
@click.option("--version", metavar="VERSION", help="Of the library of an adapter.")
@click.argument("command", nargs=-1, required=True, metavar="COMMAND...", type=click.UNPROCESSED)
def client_check(command: tuple[str, ...], role: Role | None, version: str | None) -> int:
    """Run COMMAND as producer and as consumer on a broker of its own, and judge what it reports.

    COMMAND speaks the lines of docs/clients.md; the role and its options are appended. Or it is
    the name of an adapter. It takes about half a minute.

    Exit code 3: the program lacks something that a trial needs.
    """
    from ackbench.experiments.commands import client_check as implementation

    return implementation.check(Home.from_environment(), command, role, version)


@cli.group(
    "open",
    no_args_is_help=False,
    short_help="Open a sweep's report, its trials in MLflow, or the live page.",
)
def open_() -> None:
    """Open a page of a sweep in the browser, and print where it is."""


@open_.command("report", short_help="Open a sweep's report.")
@click.argument("sweep", required=False)
def open_report(sweep: str | None) -> int:
    """Open the report of SWEEP (the newest), named as in `ackbench show`."""
    from ackbench.experiments.commands import open_page as command

    return command.open_report(Home.from_environment(), sweep)


@open_.command("live", short_help="Open the page of the sweep that runs now.")
def open_live() -> int:
    """Open the live page: the trial under way, or how the last sweep ended."""
    from ackbench.experiments.commands import open_page as command

    return command.open_live(Home.from_environment())


@open_.command("mlflow", short_help="Open a sweep's trials in MLflow.")
@click.argument("sweep", required=False)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Port of MLflow's page, if it is not served yet.",
)
def open_mlflow(sweep: str | None, port: int | None) -> int:
    """Open the charts of SWEEP (the newest) in MLflow, and start its page unless it is served."""
    from ackbench.experiments.commands import open_page as command

    return command.open_mlflow(Home.from_environment(), sweep, port)


@cli.command(
    short_help="Compare two sweeps, or cells of one.",
    epilog="""
\b
Examples:
  ackbench compare quick-20260102T030405-ab12 quick-20260103T030405-cd34
  ackbench compare A B --html ab.html
  ackbench compare quick-20260102T030405-ab12 --by acks
  ackbench compare A --by enable.idempotence --fail-on "worse:latency_p99>20%"
  ackbench compare A B --fail-on violated --fail-on "worse:latency_p99>20%"
""",
)
@click.argument("a", metavar="SWEEP")
@click.argument("b", metavar="[SWEEP]", required=False)
@click.option(
    "--by",
    "axis",
    metavar="AXIS",
    help="Compare the cells of one sweep: the first value of AXIS with each other value.",
)
@click.option(
    "--all",
    "in_full",
    is_flag=True,
    help="With --by: also each pair of cells, with intervals and tests.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/compare.md).")
@click.option("--html", type=_OUTPUT, metavar="FILE", help="Also write a page.")
@click.option("--junit", type=_OUTPUT, metavar="FILE", help="Also write JUnit's XML.")
@click.option("--markdown", type=_OUTPUT, metavar="FILE", help="Also write a job summary.")
@click.option(
    "--fail-on",
    "fail_on",
    multiple=True,
    metavar="WHAT",
    help=f"{FAIL_ON} Also worse:MEASURE>N%: B is worse than A by more than N % (shares: points), "
    "and so is its whole 95 % interval. "
    "MEASURE: loss, duplicates, latency_p99, outage, throughput.",
)
@click.option(
    "--min-cells",
    type=click.IntRange(min=1),
    metavar="N",
    help="Exit with code 3 if fewer than N cells are compared.",
)
def compare(
    a: str,
    b: str | None,
    axis: str | None,
    in_full: bool,
    as_json: bool,
    html: Path | None,
    junit: Path | None,
    markdown: Path | None,
    fail_on: tuple[str, ...],
    min_cells: int | None,
) -> int:
    """Compare two sweeps, A and B, or the cells of one; each is named as in `ackbench show`.

    Paired by cell and by seed, with intervals, tests, effect sizes and changed verdicts.

    Exit code 2: they cannot be compared, or no cell has enough trials for a worse:MEASURE. 3: they
    do not pass --fail-on or --min-cells; one line per reason.
    """
    from ackbench.experiments.commands import compare as command
    from ackbench.experiments.commands.show import ResultFiles
    from ackbench.experiments.results.comparing.gate import Gate

    setting, equals, _ = a.partition("=")
    if equals and "/" not in a:
        raise click.UsageError(
            f"{a} names no sweep; the cells of one: `ackbench compare SWEEP --by {setting}`"
        )
    home = Home.from_environment()
    gate = Gate.parse(fail_on, two_sweeps=True, min_cells=min_cells or 0)
    files = ResultFiles(junit=junit, markdown=markdown)
    if (b is None) != (axis is None):
        return command.compare_results(
            home, a, b, axis, gate=gate, as_json=as_json, html=html, files=files, in_full=in_full
        )
    raise click.UsageError(
        f"give {'only one of' if b else 'either'} a second sweep {'and' if b else 'or'} --by AXIS"
    )


@cli.command(
    short_help="Show faults against client settings.",
    epilog="""
\b
Examples:
  ackbench matrix
  ackbench matrix faults-process-20260102T030405-ab12 faults-disk-20260102T040506-cd34
  ackbench matrix A B C --markdown > faults.md
""",
)
@click.argument("sweeps", nargs=-1, metavar="[SWEEP]...")
@click.option("--markdown", is_flag=True, help="As a table for a document.")
def matrix(sweeps: tuple[str, ...], markdown: bool) -> int:
    """Show faults against client settings over all SWEEPs (the newest), named as in `show`."""
    from ackbench.experiments.commands import compare as command

    return command.print_matrix(Home.from_environment(), sweeps, markdown=markdown)


@cli.command(
    short_help="List all sweeps.",
    epilog="""
\b
Examples:
  ackbench sweeps
  ackbench sweeps quick --kafka 4.3 --limit 10
  ackbench sweeps s3://bucket/sweeps
  ackbench sweeps --cell "acks=all leader-crash" --json | jq '.sweeps[].sweep_id'
""",
)
@click.argument("experiment", required=False)
@click.option("--kafka", metavar="VERSION", help="Only of this version of Kafka: 4.3.1, 4.3 or 4.")
@click.option(
    "--cell", metavar="WORDS", help="Only with a cell of these words: 'acks=all leader-crash'."
)
@click.option("--state", metavar="STATE", help="Only in this state, such as incomplete.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the N newest.")
@_HISTORY_STORE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/trends.md).")
def sweeps(
    experiment: str | None,
    kafka: str | None,
    cell: str | None,
    state: str | None,
    limit: int | None,
    store: str | None,
    as_json: bool,
) -> int:
    """List the sweeps of this home, the newest first, also those that were pruned.

    With EXPERIMENT: only its sweeps. With a store also those that other hosts published there; a
    store's URI or folder may stand in place of EXPERIMENT.
    """
    from ackbench.experiments.commands.history import sweeps as command
    from ackbench.experiments.results.history.index import index_filter

    if experiment and "/" in experiment and store is None:
        experiment, store = None, experiment
    wanted = index_filter(experiment, version=kafka, cell=cell, state=state)
    home = Home.from_environment()
    return command.list_sweeps(home, wanted, store, limit=limit, as_json=as_json)


@cli.command(
    short_help="Show an experiment over time.",
    epilog="""
\b
Examples:
  ackbench trend nightly-upgrade
  ackbench trend nightly-upgrade --cell "acks=all leader-crash" --html trend.html
""",
)
@click.argument("experiment")
@click.option("--kafka", metavar="VERSION", help="Only sweeps of this version: 4.3.1, 4.3 or 4.")
@click.option("--cell", metavar="WORDS", help="Only cells of these words: 'acks=all leader-crash'.")
@_HISTORY_STORE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/trends.md).")
@click.option("--html", type=_OUTPUT, metavar="FILE", help="Also write a page.")
def trend(
    experiment: str,
    kafka: str | None,
    cell: str | None,
    store: str | None,
    as_json: bool,
    html: Path | None,
) -> int:
    """Show all sweeps of EXPERIMENT over time, per cell, and where the figures changed.

    Sweeps that were pruned are part of it, and those that other hosts published to the store.
    """
    from ackbench.experiments.commands.history import trend as command
    from ackbench.experiments.results.history.index import index_filter

    wanted = index_filter(experiment, version=kafka, cell=cell)
    return command.trend(Home.from_environment(), wanted, store, as_json=as_json, html=html)


@cli.command(
    short_help="Make a static site of all sweeps.",
    epilog="""
\b
Examples:
  ackbench site public
""",
)
@click.argument("folder", type=_FILE)
@_HISTORY_STORE
def site(folder: Path, store: str | None) -> int:
    """Write all sweeps as pages into FOLDER: index, reports, trends, what breaks what, lessons.

    FOLDER is new, empty, or an earlier site, of which only what has changed is written. It needs
    no server, and opens from the disk.
    """
    from ackbench.experiments.commands.history import site as command

    return command.site(Home.from_environment(), folder, store)


@cli.command(
    short_help="Publish a sweep to an object store.",
    epilog="""
\b
Examples:
  ackbench publish quick-20260102T030405-ab12
  ackbench publish quick s3://bucket/sweeps
""",
)
@click.argument("sweep")
@click.argument("store", required=False, metavar="[URI]")
def publish(sweep: str, store: str | None) -> int:
    """Upload what is not published yet of SWEEP to URI (default: as before) and print its URI.

    It can be repeated: published trials are not uploaded again.
    """
    from ackbench.experiments.commands.history import publish as command

    return command.publish(Home.from_environment(), sweep, store)


@cli.command(
    short_help="Start a cluster to break by hand.",
    epilog="""
\b
Examples:
  ackbench cluster
  ackbench cluster --nodes 5 --broker min.insync.replicas=2
  ackbench cluster kill-leader orders 0       in another terminal
  ackbench cluster heal
""",
)
@click.argument("action", nargs=-1, metavar="[ACTION]...")
@click.option("--nodes", type=click.IntRange(1, 9), help="Brokers (default: 3).")
@click.option("--kafka-version", metavar="VERSION", help="A release from 3.9 on.")
@click.option(
    "--broker", multiple=True, metavar="NAME=VALUE", help="A property of the brokers; repeatable."
)
@click.option("--isolation", is_flag=True, help="So that nodes can be isolated; needs root.")
@click.option(
    "--name",
    "named",
    metavar="NAME",
    help="With ACTION: of several clusters, the one of this name (`ackbench status`).",
)
def cluster(
    action: tuple[str, ...],
    nodes: int | None,
    kafka_version: str | None,
    broker: tuple[str, ...],
    isolation: bool,
    named: str | None,
) -> int:
    """Start brokers on this machine until Ctrl-C; with ACTION, act on those of another terminal.

    ACTION is one of: status, topic, kill, pause, resume, shutdown, start, kill-leader,
    pause-leader, isolate, heal.
    """
    from ackbench.experiments.commands.machine import cluster as command

    home = Home.from_environment()
    if action:
        if nodes or kafka_version or broker or isolation:
            raise click.UsageError("an action takes --name only: the others are of a new cluster")
        return command.act(home, action, named)
    if named:
        raise click.UsageError("--name is of an action, as in: ackbench cluster status --name NAME")
    pairs = [text.partition("=") for text in broker]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise click.UsageError(f"--broker {name}: write --broker NAME=VALUE")
    return command.serve(
        home,
        nodes=nodes or 3,
        kafka_version=kafka_version,
        broker={name: value for name, _, value in pairs},
        isolation=isolation,
    )


@cli.command(short_help="Start the pages of Airflow and MLflow.")
@click.option(
    "--airflow-port", type=click.IntRange(1, 65535), metavar="PORT", help="Port of Airflow's page."
)
@click.option(
    "--mlflow-port", type=click.IntRange(1, 65535), metavar="PORT", help="Port of MLflow's page."
)
@click.option(
    "--experiments",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Offer also the YAML files of this folder (default: ACKBENCH_EXPERIMENTS).",
)
@click.option(
    "--no-login",
    is_flag=True,
    help="Ask for no password: every user and program of this machine administers Airflow.",
)
@click.option("--as-root", is_flag=True, help="Serve also as root.")
@_METRICS_PORT
def up(
    airflow_port: int | None,
    mlflow_port: int | None,
    experiments: Path | None,
    no_login: bool,
    as_root: bool,
    metrics_port: int | None,
) -> int:
    """Start Airflow's scheduler and page and MLflow's page on this machine; Ctrl-C stops them.

    Airflow asks for the user ackbench and a password, which is generated and shown the first time.
    """
    from ackbench.experiments.commands.machine import up as command

    return command.up(
        Home.from_environment(),
        airflow_port=airflow_port,
        mlflow_port=mlflow_port,
        experiments=experiments,
        login=not no_login,
        as_root=as_root,
        metrics_port=metrics_port,
    )


@cli.command(short_help="Remove what ended runs left behind.")
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="SWEEP",
    help="Also delete the sweep with this id, sealed trials included.",
)
@click.option("--force", is_flag=True, help="Also end runs in progress and their clusters.")
def clean(sweeps: tuple[str, ...], force: bool) -> int:
    """Remove what ended runs left behind: logs of brokers, processes, clusters, unfinished trials.

    Also copies of published sweeps, and the live page. Sealed trials are kept.
    """
    from ackbench.experiments.commands import clean as command

    return command.clean(Home.from_environment(), sweeps, force=force)


@cli.command(
    short_help="Delete old sweeps by number, age and size.",
    epilog="""
\b
Examples:
  ackbench prune --keep 30 --older-than 90d --max-bytes 50GB
  ackbench prune --keep 30 --older-than 90d --max-bytes 50GB --apply
  ackbench prune --store s3://bucket/sweeps --keep 200 --older-than 365d
""",
)
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    metavar="N",
    help="Keep the N newest sweeps of each experiment.",
)
@click.option("--older-than", metavar="AGE", help="Prune others that are older: 12h, 90d, 8w.")
@click.option(
    "--max-bytes",
    metavar="SIZE",
    help="Then prune the oldest others until all, without caches, takes no more: 50GB.",
)
@click.option("--store", metavar="URI", help="Prune the sweeps of this store, not the home's.")
@click.option("--apply", is_flag=True, help="Delete; without it, only what would be is printed.")
def prune(
    keep: int | None, older_than: str | None, max_bytes: str | None, store: str | None, apply: bool
) -> int:
    """Delete old sweeps with their logs and their runs in MLflow, and Airflow's old history.

    Pinned sweeps (`ackbench pin`) and sweeps in progress stay, and so do the N newest of each
    experiment, whatever the other limits say. The figures of a pruned sweep stay in `ackbench
    sweeps` and `ackbench trend`.

    With --store: those of all hosts that are published there.
    """
    from ackbench.experiments.commands.history import prune as command
    from ackbench.experiments.results.history.pruning import limits_of

    limits = limits_of(keep, older_than, max_bytes)
    if store:
        return command.prune_store(Home.from_environment(), store, limits, apply=apply)
    return command.prune(Home.from_environment(), limits, apply=apply)


@cli.command(short_help="Exempt a sweep from pruning.")
@click.argument("sweep")
@click.option("--reason", default="", metavar="TEXT", help="Why, for people.")
@click.option("--remove", is_flag=True, help="Remove the pin.")
def pin(sweep: str, reason: str, remove: bool) -> int:
    """Keep SWEEP, named as in `ackbench show`, whatever `ackbench prune` is limited to.

    A published sweep is pinned in its store too, for all hosts.
    """
    from ackbench.experiments.commands.history import prune as command

    return command.pin(Home.from_environment(), sweep, reason=reason, remove=remove)


@cli.command(
    short_help="Check the checker with known damage.",
    epilog="""
\b
Examples:
  ackbench selftest
  ackbench selftest quick-20260102T030405-ab12 --seed 7
""",
)
@click.argument("sweep", required=False)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Determines which records are damaged.",
)
def selftest(sweep: str | None, seed: int) -> int:
    """Plant known damage into copies of a trial of SWEEP (the newest) and check that it is found.

    The sweep itself is not changed. Exit code 0: all damage was found exactly. 1: some was not.
    2: the sweep has no suitable trial.
    """
    from ackbench.experiments.commands import selftest as command

    return command.selftest(Home.from_environment(), sweep, seed)


@cli.command(short_help="Make what sweeps need, once.")
def setup() -> int:
    """Fetch Kafka's jars and make start-up caches, compiled clients and databases, once.

    It is repeated after an upgrade. `ackbench run` calls it where it was forgotten.
    """
    from ackbench.experiments.commands import setup as command

    return command.setup(Home.from_environment())


@cli.command(short_help="Report what this machine can do.")
def doctor() -> int:
    """Report what is installed, what this machine can do, and how to fix the rest."""
    from ackbench.experiments.commands.machine import doctor as command

    return command.doctor(Home.from_environment())


@cli.command(short_help="Print the environment of Airflow's commands.")
def env() -> int:
    """Print the environment that Airflow's own commands need: eval "$(ackbench env)"."""
    from ackbench.experiments.commands.machine import up as command

    return command.env(Home.from_environment())


def main() -> None:
    """Run the command with this process's arguments."""
    keep_files_private()
    cli(prog_name=Path(sys.argv[0]).name)
