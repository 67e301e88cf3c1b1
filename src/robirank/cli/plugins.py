"""Commands that other distributions bring, robirank-lab among them."""

from __future__ import annotations

from typing import Any

import typer

from robirank.cli.console import GuardedGroup, show_no_type

#: Entry points of this group are typer applications; their names are those of the commands.
ENTRY_POINTS = "robirank.commands"
#: The commands that robirank-lab brings.
LAB_COMMANDS = ("demo", "experiment", "report")


class RootGroup(GuardedGroup):
    """The commands of this package and of entry points, which are imported when they are asked for.

    What goes wrong in a command of another distribution is reported like all else.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, those of this package first."""
        return list(dict.fromkeys([*super().list_commands(ctx), *sorted(_entry_points())]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; None where nobody brings it."""
        if cmd_name not in self.commands:
            entry_point = _entry_points().get(cmd_name)
            if entry_point is not None:
                command = typer.main.get_command(entry_point.load())
                command.name = cmd_name
                show_no_type(command)
                self.add_command(command)
            elif cmd_name in LAB_COMMANDS:
                raise ImportError(
                    f"robirank {cmd_name} is part of robirank-lab, which is not installed: "
                    "pip install robirank-lab"
                )
        return super().get_command(ctx, cmd_name)


def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {entry_point.name: entry_point for entry_point in entry_points(group=ENTRY_POINTS)}
