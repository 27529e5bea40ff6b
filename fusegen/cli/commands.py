"""The commands, one table: name, help, arguments, what it does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusegen.backend.emit.headers import include_dir
from fusegen.backend.registry import HERE, SHOWN
from fusegen.cli import cache
from fusegen.cli.choices import add_choices
from fusegen.cli.named import constants_of, find_named, find_pipeline
from fusegen.cli.run import add_run_arguments, run
from fusegen.ir.errors import ArgumentError, LawViolation
from fusegen.ir.forms import FORMS, PRECISIONS, ROLES
from fusegen.library.stabilize import stabilize
from fusegen.library.vectors import EVERY
from fusegen.pipeline.pipeline import Pipeline

_OWN = "PIPELINE is a library name (fusegen list) or path.py:name; a monoid made by\n" \
       "fg.monoid stands for the pipeline that reduces its elements with it.\n" \
       "Every keyword constant of the pipeline is an option, for example --k 5."


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    takes_pipeline: bool = True
    epilog: str = _OWN


def _add_pipeline(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pipeline", metavar="PIPELINE")


def _add_compile_arguments(parser: argparse.ArgumentParser) -> None:
    _add_pipeline(parser)
    parser.add_argument("--dtype", default="float32", help="element type of the inputs")
    parser.add_argument(
        "--n-cols", "--cols", type=int, metavar="N", help="columns of a row, if known"
    )
    parser.add_argument(
        "--n-rows", "--rows", type=int, metavar="N", help="number of rows, if known"
    )
    add_choices(parser)
    parser.add_argument("--with", dest="inputs", action="append", default=[], metavar="INPUT",
                        help="include this optional input")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32",
                        help="of dots of float32 vectors, on tensor cores")
    parser.add_argument("--role", choices=ROLES, default="call",
                        help="the program: a call's, or what makes, merges or finishes states")
    parser.add_argument("--stabilize", action="store_true", help="rewrite naive text safely first")


def _chosen(args: argparse.Namespace) -> Pipeline:
    found = find_pipeline(args.pipeline)
    return stabilize(found) if args.stabilize else found


def _compile_options(args: argparse.Namespace) -> dict[str, Any]:
    return dict(
        form=args.form, dtype=args.dtype, n_cols=args.n_cols, n_rows=args.n_rows, chunk=args.chunk,
        inputs=tuple(args.inputs), target=args.target, deterministic=args.deterministic,
        role=args.role, precision=args.precision, **constants_of(args),
    )


def _list(_: argparse.Namespace) -> int:
    width = max(map(len, EVERY))
    for name, pipeline in EVERY.items():
        summary = (pipeline.__doc__ or "").strip().splitlines()[0]
        print(f"{name:<{width}}  {summary}")
    return 0


def _add_explain(parser: argparse.ArgumentParser) -> None:
    _add_compile_arguments(parser)
    parser.add_argument("--target", default=HERE, help=f"{HERE} (default), sm_80, sm_90, …")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write HTML instead of text")


def _explain(args: argparse.Namespace) -> int:
    page = _chosen(args).explain(**_compile_options(args))
    if args.html is not None:
        args.html.write_text(page._repr_html_(), encoding="utf-8")
    else:
        print(page)
    return 0


def _add_source(parser: argparse.ArgumentParser) -> None:
    _add_compile_arguments(parser)
    parser.add_argument("--target", default=SHOWN,
                        help=f"sm_80, {SHOWN} (default), sm_100, {HERE}, …")
    parser.add_argument(
        "--output", "-o", type=Path, metavar="FILE", help="default: standard output"
    )
    parser.add_argument("--include", action="store_true",
                        help="name fusegen's headers by #include lines, and do not hold their text")
    parser.add_argument("--host", action="store_true",
                        help='end with extern "C" functions that launch it from C++')
    parser.add_argument("--include-dir", action=_IncludeDir,
                        help="print the folder where a compiler's -I finds them, and stop")


class _IncludeDir(argparse.Action):
    """Prints the folder of fusegen's headers, whatever else is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(include_dir())
        parser.exit()


def _source(args: argparse.Namespace) -> int:
    text = _chosen(args).source(**_compile_options(args), include=args.include,
                                                             host=args.host)
    if args.output is not None:
        args.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


def _add_export(parser: argparse.ArgumentParser) -> None:
    _add_pipeline(parser)
    parser.add_argument("--target", default=[HERE], metavar="A,B,…", dest="targets", type=_words,
                        help=f"{HERE} (default), x86-64-v4, sm_80, {SHOWN}, sm_100, …")
    parser.add_argument("--dtype", default=["float32"], metavar="A,B,…", dest="dtypes", type=_words,
                        help="element types of the inputs")
    parser.add_argument("--row-lengths", metavar="N,M,…", type=_numbers, default=(),
                        help="rows that GPUs are to be fastest for")
    parser.add_argument("--form", choices=FORMS, default="auto", help="how it is executed")
    parser.add_argument("--with", dest="inputs", action="append", default=[], metavar="INPUT",
                        help="include this optional input")
    parser.add_argument("--side-by-side", action="store_true",
                        help="GPUs reduce axes that are not the last one, too")
    parser.add_argument("--stabilize", action="store_true", help="rewrite naive text safely first")
    parser.add_argument("--output", "-o", type=Path, metavar="FOLDER", required=True)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers") from None


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _export(args: argparse.Namespace) -> int:
    made = _chosen(args).export(
        args.output, targets=args.targets, dtypes=args.dtypes,
        row_lengths=args.row_lengths, form=args.form, inputs=tuple(args.inputs),
        side_by_side=args.side_by_side, **constants_of(args))
    print(made)
    return 0


def _add_graph(parser: argparse.ArgumentParser) -> None:
    _add_pipeline(parser)
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        metavar="FILE",
        help=".svg or .png (matplotlib), .dot (Graphviz), .mmd (Mermaid)",
    )
    parser.add_argument("--with", dest="inputs", action="append", default=[], metavar="INPUT",
                        help="include this optional input")


def _graph(args: argparse.Namespace) -> int:
    from fusegen.cli import drawing

    graph = find_pipeline(args.pipeline).graph(inputs=tuple(args.inputs), **constants_of(args))
    if args.output is not None:
        drawing.write(graph, args.output)
    else:
        print(drawing.as_text(graph))
    return 0


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pipeline", metavar="PIPELINE")
    parser.add_argument("--seed", type=int, default=0, help="of the random rows and splits")


def _check(args: argparse.Namespace) -> int:
    from fusegen.library.check import check

    if args.seed < 0:
        raise ArgumentError("--seed must not be negative")
    try:
        print(check(find_named(args.pipeline), seed=args.seed, **constants_of(args)))
    except LawViolation as error:
        print(f"fusegen: a law is violated: {error}", file=sys.stderr)
        return 1
    return 0


def _doctor(_: argparse.Namespace) -> int:
    from fusegen.cli import doctor

    print(doctor.text())
    return 0


def _nothing(_: argparse.ArgumentParser) -> None:
    """No arguments."""


COMMANDS = {
    c.name: c
    for c in (
        Command("list", "The library's pipelines.", _nothing, _list, False, ""),
        Command("run", "Run a pipeline on made or given input; time it, check it, write results.",
                add_run_arguments, run),
        Command("explain", "The text, the operator ⊕, what was proved, and the plan.",
                _add_explain, _explain),
        Command("source", "The generated CUDA C++ or C++; needs no GPU.", _add_source, _source),
        Command("export", "A shared library with a C ABI, for programs without Python.",
                _add_export, _export),
        Command("graph", "The traced graph, as text or a drawing.", _add_graph, _graph),
        Command("check", "Prove again, then replay every merged operator on random splits.",
                _add_check, _check),
        Command("cache", "What is kept on disk: list, prune or verify it.",
                cache.add_arguments, cache.run, False, ""),
        Command("doctor", "What is installed, which backends work here, and why not.",
                _nothing, _doctor, False, ""),
    )
}
