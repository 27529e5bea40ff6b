"""The command line: `fusegen list`, `fusegen run`, …: see `COMMANDS`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from fusegen.cli.commands import COMMANDS, Command
from fusegen.cli.named import add_constants, find_pipeline, users_mistake
from fusegen.cli.terminal import write_anything
from fusegen.ir.errors import ArgumentError, BackendError, FusegenError, InternalError
from fusegen.ir.nearest import nearest
from fusegen.ir.version import __version__
from fusegen.library.vectors import EVERY

USER_ERROR = 2  # exit status, as argparse's own


class Parser(argparse.ArgumentParser):
    """Unknown options get the nearest of `options`, those of the command in question."""

    options: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        unrecognized = message.startswith("unrecognized arguments")
        unknown = [w for w in message.split() if unrecognized and w.startswith("--")]
        hint = nearest(unknown[0].partition("=")[0], self.options) if unknown else ""
        self.print_usage(sys.stderr)
        self.exit(USER_ERROR, f"{self.prog}: {message}\n" + (f"  {hint}\n" if hint else ""))


def build_parser(argv: Sequence[str]) -> Parser:
    """The parser; where argv names a pipeline, its constants are options of the command."""
    top = Parser(prog="fusegen", description="Fused row reductions: safe text in, fast kernel out.",
                 allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"fusegen {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS.values():
        parser = commands.add_parser(
            command.name, help=command.help, description=command.help, epilog=command.epilog,
            allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(parser)
        if command.takes_pipeline and argv and argv[0] == command.name:
            _add_constants(parser, command, argv[1:])
        parser.options = tuple(parser._option_string_actions)
        if argv and argv[0] == command.name:
            top.options = parser.options
    return top


def _add_constants(parser: argparse.ArgumentParser, command: Command, rest: Sequence[str]) -> None:
    words = [word for word in rest if not word.startswith("-")]
    if not words:
        return
    # Values of options stand among them: the pipeline is what looks like one.
    named = next((w for w in words if w in EVERY or ":" in w), words[0])
    try:
        add_constants(parser, find_pipeline(named))
    except FusegenError:
        if "-h" not in rest and "--help" not in rest:
            raise  # the name is wrong: say that, not that its options are unknown


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit status: 0 done, 1 a check failed, 2 a user's error, 3 ours."""
    words = list(sys.argv[1:] if argv is None else argv)
    write_anything()
    try:
        if words and not words[0].startswith("-") and words[0] not in COMMANDS:
            raise ArgumentError(f"there is no command {words[0]!r}",
                                why=f"Commands: {', '.join(COMMANDS)}.",
                                fix=nearest(words[0], COMMANDS))
        args = build_parser(words).parse_args(words)
        status = COMMANDS[args.command].run(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except InternalError as error:
        print(f"fusegen: internal error, please report it: {error}", file=sys.stderr)
        return 3
    except MemoryError as error:
        print(f"fusegen: error: not enough memory: {error}", file=sys.stderr)
        return USER_ERROR
    except (FusegenError, OSError) as error:
        kind = "cannot run" if isinstance(error, BackendError) else "error"
        text = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            text = f"{error.filename}: {error.strerror}. Name a file or folder that can be used."
        print(f"fusegen: {kind}: {text}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        mistake = users_mistake(error)
        if mistake is None:
            raise
        print(f"fusegen: error: {mistake}", file=sys.stderr)
        return USER_ERROR
