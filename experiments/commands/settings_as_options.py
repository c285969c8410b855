"""A command that takes settings as options: `--acks all` is `--set acks=all`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from typing import Final

import click

_ALIKE: Final = 0.8
"""How alike an unknown option and one of the command are, if it is a typo of that."""


class TakesSettings(click.Command):
    """A command with `--set` for which any other option with a value is a setting."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments after each setting has become one of `--set`."""
        own = {
            name
            for parameter in self.get_params(ctx)
            for name in (*parameter.opts, *parameter.secondary_opts)
        }
        return super().parse_args(ctx, list(settings_as_sets(args, own)))


def settings_as_sets(args: Sequence[str], own: Collection[str]) -> Iterator[str]:
    """Yield arguments with `--acks all` and `--acks=all` as `--set acks=all`.

    An option that is like one of the command's own, or has no value, stays as it is: the command
    says what is wrong with it. Kafka's names have dots; `--replication-factor` is
    `replication.factor`.

    Args:
        args: of the command line.
        own: the command's options.
    """
    rest = iter(args)
    for arg in rest:
        if arg == "--":
            yield from (arg, *rest)
            return
        option, equals, value = arg.partition("=")
        is_setting = (
            option.startswith("--")
            and option not in own
            and not get_close_matches(option, own, cutoff=_ALIKE)
        )
        if not is_setting:
            yield arg
            continue
        if not equals:
            following = next(rest, None)
            if following is None or following.startswith("--"):
                yield from (arg, *([] if following is None else [following]))
                continue
            value = following
        name = option.removeprefix("--")
        yield from ("--set", f"{name.replace('-', '.')}={value}")
