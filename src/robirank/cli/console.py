"""How the commands talk: results on standard output, everything else on standard error."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import typer
from typer.core import TyperGroup

from robirank.errors import Argument, RobirankError

OK, UNEXPECTED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


class GuardedGroup(TyperGroup):
    """Turns what goes wrong in any command below into one line and an exit code.

    2 for wrong usage or input (ValueError, RobirankError, OSError, a missing extra), 1 for anything
    unexpected, 130 after Ctrl-C. With ``ROBIRANK_DEBUG=1`` the traceback is printed too.
    """

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Begin to read a command line."""
        show_no_type(self)
        return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            set_quiet(False)
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                raise _stop("interrupted", INTERRUPTED) from None
            except BrokenPipeError:  # the reader has had enough, as in `… | head`
                raise
            except ModuleNotFoundError as error:  # a missing extra is a plain ImportError
                raise _unexpected(error) from None
            except RobirankError as error:
                raise _stop(_one_line(in_options(error, _options_of(self))), BAD_INPUT) from None
            except (ValueError, OSError, ImportError) as error:
                raise _stop(_describe(error), BAD_INPUT) from None
            except Exception as error:
                # The exceptions of typer say themselves what their exit code is.
                if hasattr(error, "exit_code") or isinstance(error, typer.Abort):
                    raise
                raise _unexpected(error) from None
            finally:
                set_quiet(False)


def show_no_type(command: Any) -> None:
    """Leave ``<bool>`` out of the help of a command and its subcommands: flags take no value."""
    for param in command.params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    make_help = command.get_help_option

    def get_help_option(ctx: Any) -> Any:
        option = make_help(ctx)
        if option is not None:
            option.metavar = ""
        return option

    command.get_help_option = get_help_option
    for below in getattr(command, "commands", {}).values():
        show_no_type(below)


def _unexpected(error: Exception) -> typer.Exit:
    text = f"unexpected {type(error).__name__}: {_describe(error)}"
    hint = "set ROBIRANK_DEBUG=1 to see where, and please report it"
    return _stop(text, UNEXPECTED, hint)


def _stop(message: str, code: int, *hints: str) -> typer.Exit:
    if os.environ.get("ROBIRANK_DEBUG", "") not in ("", "0"):
        traceback.print_exc(file=sys.stderr)
    prefix = "" if code == INTERRUPTED else "error: "
    for line in (f"robirank: {prefix}{message}", *hints):
        tell(line)
    return typer.Exit(code)


def _describe(error: Exception) -> str:
    """Say in one line what is wrong."""
    if isinstance(error, OSError) and error.strerror:
        place = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{place}"
    return _one_line(str(error)) or type(error).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())


def in_options(error: RobirankError, options: set[str]) -> str:
    """The message of an error, in which arguments are called by the options of the command line."""

    def name(argument: Argument) -> str:
        option = "--" + _CALLED.get(argument.name, argument.name).replace("_", "-")
        if option not in options:
            return f"{argument} (in Python)" if argument.has_value else str(argument)
        if argument.value is False:
            return option.replace("--", "--no-", 1)
        is_flag = not argument.has_value or argument.value is True
        return option if is_flag else f"{option} {shlex.quote(str(argument.value))}"

    return error.message(name)


#: What options are called whose arguments have another name in Python.
_CALLED = {"num_threads": "threads", "random_state": "seed", "N": "number"}


def _options_of(group: Any) -> set[str]:
    """All options of a group's commands."""
    commands = [*getattr(group, "commands", {}).values()]
    options = {name for param in group.params for name in param.opts if name.startswith("--")}
    return options.union(*map(_options_of, commands))


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    tell(f"robirank: warning: {_one_line(str(message))}")


_quiet = False


def set_quiet(quiet: bool) -> bool:
    """Choose whether `note` and `step` are silent; the callback of an option, whose value it is."""
    global _quiet
    _quiet = quiet
    return quiet


def note(text: str) -> None:
    """Say on standard error what is going on, unless the command is to be quiet."""
    if not _quiet:
        tell(text)


def tell(text: str) -> None:
    """Say something on standard error in any case."""
    print(for_reader(text, sys.stderr), file=sys.stderr, flush=True)


# Controls (C0, delete, C1), marks and controls of the writing direction, line and paragraph
# separators, and surrogates that stand alone: what a terminal obeys, or shows in another order.
_NOT_SHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff\ufeff]"
)


def escaped(text: str, keep: str = "") -> str:
    """Text with an escape, as in JSON, for each character that a terminal would obey."""

    def escape(found: re.Match[str]) -> str:
        return found[0] if found[0] in keep else f"\\u{ord(found[0]):04x}"

    return _NOT_SHOWN.sub(escape, text)


def for_reader(text: str, stream: IO[str], keep: str = "") -> str:
    """Text `escaped` for a terminal, and as it is for a file or a pipe."""
    return escaped(text, keep) if stream.isatty() else text


@contextlib.contextmanager
def step(what: str) -> Iterator[list[str]]:
    """Report a step and how long it took; lines appended to the yielded list go with it."""
    started = time.perf_counter()
    details: list[str] = []
    yield details
    seconds = time.perf_counter() - started
    said = [f"{what}:", *details] if details else [what]
    note(" ".join([*said, f"({seconds:.1f} s)"]))


def show_progress() -> bool:
    """Whether a progress bar is wanted and would be seen."""
    return not _quiet and sys.stderr.isatty()


def print_text(text: str) -> None:
    """Print text on standard output: `escaped` on a terminal, bytes as they are into a pipe."""
    text = for_reader(text, sys.stdout, keep="\t\n")
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def print_json(value: Any) -> None:
    """Print exactly one JSON value on standard output; what is not a number becomes null."""
    finite = json.loads(json.dumps(value), parse_constant=lambda _: None)
    text = json.dumps(finite, indent=2, ensure_ascii=False) + "\n"
    sys.stdout.write(for_reader(text, sys.stdout, keep="\n"))


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on standard output; all columns but the first are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for i, name in enumerate(header):
        shown = for_reader(name, sys.stdout)
        table.add_column(shown, justify="right" if i else "left", overflow="fold")
    for row in rows:
        table.add_row(*(for_reader(cell, sys.stdout) for cell in row))
    console = Console(highlight=False, markup=False)
    console.print(for_reader(title, sys.stdout), style="bold")
    console.print(table)


def print_facts(title: str, facts: Mapping[str, Any], *, as_json: bool = False) -> None:
    """Print names and values as JSON or as a table, which leaves out lists and flags."""
    if as_json:
        print_json(facts)
        return
    shown = {name: value for name, value in facts.items() if not isinstance(value, list | bool)}
    rows = [[name.replace("_", " "), _cell(value)] for name, value in shown.items()]
    print_table(title, ["", "value"], rows)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def check_output(path: Path | None, *sources: Path | str | None) -> None:
    """Fail before the work, not after it: a file must have a folder, and not be read as well."""
    if path is None:
        return
    for source in sources:
        if source is not None and path.exists() and Path(source).resolve() == path.resolve():
            raise FileExistsError(f"cannot write {path}: it is read as well")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder")
