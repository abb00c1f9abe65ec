"""`gguf-explorer compare`: what one model's weights lost against another's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import click

from explorer.analysis.comparison import ComparedRow, Comparison, TotalErrors
from explorer.analysis.matching import Match, Matching, Mismatch, TensorView, match_models
from explorer.cli.arguments import json_option, model_path, root_option
from explorer.cli.errors_record import ABOUT_ERRORS, errors_record
from explorer.cli.output import (
    cell_width,
    line_width,
    on_terminal,
    style,
    write,
    write_error,
    write_json,
)
from explorer.cli.progress import Progress
from explorer.cli.weights_walk import refuse_model_file, teller, workers_option, writing
from explorer.errors import ExplorerError
from explorer.formats import Model, open_model
from explorer.tabular import Cell, write_csv
from explorer.text import float_text, integer_text, plain_text, shape_text, shorten

_LONGEST_NAME: Final = 48
_SHOWN_NAMES: Final = 8
_FIGURES: Final = (
    ("rmse", "RMSE"),
    ("relative_rmse", "relative"),
    ("sqnr_db", "SQNR dB"),
    ("max_abs_error", "max |e|"),
    ("mean_error", "bias"),
    ("one_minus_cosine", "1 - cosine"),
)


@click.command("compare")
@click.argument("reference", type=click.Path())
@click.argument("candidate", type=click.Path())
@click.option(
    "names",
    "--tensor",
    multiple=True,
    metavar="NAME",
    help="Compare only this tensor, named as in either model; may be given several times.",
)
@click.option(
    "csv_path",
    "--csv",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the table to a file, as comma-separated values.",
)
@workers_option
@root_option
@json_option
def compare_command(  # noqa: PLR0913 - one for each argument and option
    reference: str,
    candidate: str,
    *,
    names: tuple[str, ...],
    csv_path: Path | None,
    workers: int,
    root: str | None,
    as_json: bool,
) -> int:
    """Show what the weights of CANDIDATE lost against those of REFERENCE, tensor by tensor.

    Every weight is compared. The two may be of different formats: names are matched, and what a
    converter did to the weights (rows of llama's q and k permuted, 1 added to Gemma's norms,
    experts stacked) is undone. What cannot be compared is listed with the reason.

    Weight error ranks tensors of one role (all ffn_down, say) and types of one tensor. It does not
    by itself predict the quality of a model's answers.

    \b
    Examples:
      gguf-explorer compare model-bf16.gguf model-Q4_K_M.gguf
      gguf-explorer compare Llama-3-8B/ llama-3-8b-Q4_K_M.gguf --csv errors.csv
      gguf-explorer compare a.gguf b.gguf --json | jq '.tensors | max_by(.relative_rmse)'
    """
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(open_model(path)) for path in _paths((reference, candidate), root)
        )
        for model in (one, two):
            if csv_path is not None:
                refuse_model_file(model, csv_path)
        matching = match_models(one, two)
        comparison = Comparison(_chosen(matching, names, (one, two)))
        with Progress(comparison.parameters) as line:
            # On a terminal the rows themselves show how far it is.
            tell = teller(line, "weights") if as_json or not on_terminal() else None
            rows = comparison.rows(workers, progress=tell)
            needed = csv_path is not None
            found = list(rows if as_json else _printed(comparison, rows, needed=needed))
        total = comparison.total()
    records = [_record(row) for row in found]
    if csv_path is not None:
        with writing(csv_path) as stream:
            write_csv(stream, _COLUMNS, map(_cells, records))
    if as_json:
        write_json(_document((reference, candidate), records, matching, total))
    else:
        write(_summary(matching, total, whole=not names))
    damaged = [row.problem for row in found if row.problem is not None]
    if damaged:
        write_error(str(damaged[0]))
    return 1 if damaged else 0


def _paths(given: tuple[str, str], root: str | None) -> Iterator[Path]:
    """Return what to open; --root is for those of the two that are names."""
    from explorer.stores.names import is_name  # noqa: PLC0415 - as in `model_path`

    if root is not None and not any(map(is_name, given)):
        raise click.UsageError("--root belongs to a name of a model, such as ollama:llama3")
    for path in given:
        if not path:
            raise click.UsageError("the path of a model is empty")
        yield model_path(path, root if is_name(path) else None)


def _chosen(matching: Matching, names: Sequence[str], models: Sequence[Model]) -> list[Match]:
    """Return the pairs that are asked for; all if none are.

    Raises:
        ExplorerError: A name is not known, or its tensor is not comparable.
    """
    if not names:
        return list(matching.matches)
    places: dict[str, list[int]] = {}
    for place, match in enumerate(matching.matches):
        for name in _names_of(match):
            places.setdefault(name, []).append(place)
    chosen: dict[int, None] = {}
    for name in names:
        if name not in places:
            raise ExplorerError(_why_not(matching, name, list(places)), models[0].path)
        chosen |= dict.fromkeys(places[name])
    return [matching.matches[place] for place in chosen]


def _names_of(match: Match) -> set[str]:
    views = (match.reference, match.candidate)
    return {view.name for view in views} | {t.name for view in views for t in view.tensors}


def _why_not(matching: Matching, name: str, known: Sequence[str]) -> str:
    for pair in matching.not_comparable:
        if name in {pair.reference_name, pair.candidate_name}:
            return f"tensor {name!r} is not comparable: {pair.reason}"
    if name in {*matching.unmatched_reference, *matching.unmatched_candidate}:
        return f"tensor {name!r} is only in one of the two models"
    similar = get_close_matches(name, known, n=1)
    hint = f"did you mean {similar[0]!r}?" if similar else "compare without --tensor lists them"
    return f"neither model has a tensor {name!r}; {hint}"


def _record(row: ComparedRow) -> dict[str, Any]:
    """Return a row of the JSON object."""
    reference, candidate = row.match.reference, row.match.candidate
    errors = row.errors
    return {
        "reference_name": reference.name,
        "candidate_name": candidate.name,
        "type": candidate.type_name,
        "reference_type": reference.type_name,
        "shape": list(candidate.shape),
        "count": candidate.parameters,
        **errors_record(errors),
        "saturated_codes": None if errors is None else errors.saturated_codes,
        "reference_tensors": [tensor.name for tensor in reference.tensors],
        "candidate_tensors": [tensor.name for tensor in candidate.tensors],
        "notes": [*reference.notes, *candidate.notes],
        "problem": None if row.problem is None else row.problem.what,
    }


_NOT_IN_CSV: Final = ("percentiles", "reference_tensors", "candidate_tensors")
_COLUMNS: Final = [
    *("reference_name", "candidate_name", "type", "reference_type", "shape", "count"),
    *(name for name in errors_record(None) if name not in _NOT_IN_CSV),
    *("percentile_50", "percentile_90", "percentile_99", "percentile_99.9"),
    *("saturated_codes", "notes", "problem"),
]


def _cells(record: dict[str, Any]) -> list[Cell]:
    percentiles = record["percentiles"] or {}
    flat = {
        **record,
        **{f"percentile_{percent}": value for percent, value in percentiles.items()},
        "shape": "x".join(map(str, record["shape"])),
        "notes": "; ".join(record["notes"]),
    }
    return [flat.get(name) for name in _COLUMNS]


def _document(
    paths: tuple[str, str], records: list[dict[str, Any]], matching: Matching, total: TotalErrors
) -> dict[str, Any]:
    figures = total.figures
    return {
        "reference": paths[0],
        "candidate": paths[1],
        "tensors": records,
        "unmatched": {
            "reference": list(matching.unmatched_reference),
            "candidate": list(matching.unmatched_candidate),
        },
        "not_comparable": [
            {
                "reference_name": pair.reference_name,
                "candidate_name": pair.candidate_name,
                "reason": pair.reason,
            }
            for pair in matching.not_comparable
        ],
        "total": {
            "rmse": figures.rmse,
            "relative_rmse": figures.relative_rmse,
            "sqnr_db": figures.sqnr_db,
            "bits_per_weight": total.bits_per_weight,
            "count": figures.count,
        },
        "notes": [ABOUT_ERRORS],
    }


def _printed(
    comparison: Comparison, rows: Iterable[ComparedRow], *, needed: bool
) -> Iterator[ComparedRow]:
    """Print each row when it comes.

    Ends when nobody reads any more (`| head`), unless the rows are `needed` for something else.
    """
    matches = comparison.matches
    widths = (
        max([9, *(cell_width(_name(match.candidate)) for match in matches)]),
        max([4, *(len(plain_text(match.candidate.type_name)) for match in matches)]),
        max([5, *(len(shape_text(match.candidate.shape)) for match in matches)]),
    )
    titles = [title for _, title in _FIGURES]
    write(_line(("candidate", "type", "shape"), widths, titles))
    for row in rows:
        view = row.match.candidate
        cells = (_name(view), plain_text(view.type_name), shape_text(view.shape))
        if row.errors is None:
            what = "" if row.problem is None else plain_text(row.problem.what)
            line = _line(cells, widths, ()).rstrip() + f"  {what}\n"
        else:
            figures = [float_text(getattr(row.errors, name), 5) for name, _ in _FIGURES]
            line = _line(cells, widths, figures)
        if not write(line) and not needed:
            return
        yield row


def _name(view: TensorView) -> str:
    return shorten(plain_text(view.name), _LONGEST_NAME)


def _line(cells: Iterable[str], widths: Iterable[int], numbers: Iterable[str]) -> str:
    padded = [
        text + " " * (width - cell_width(text)) for text, width in zip(cells, widths, strict=True)
    ]
    padded += [f"{number:>12}" for number in numbers]
    return "  ".join(padded).rstrip() + "\n"


def _summary(matching: Matching, total: TotalErrors, *, whole: bool) -> str:
    """Return what is printed below the rows."""
    figures = total.figures
    lines = [
        "",
        style("All together", bold=True),
        f"  {integer_text(figures.count)} weights, RMSE {float_text(figures.rmse, 5)}, "
        f"relative {float_text(figures.relative_rmse, 5)}, "
        f"SQNR {float_text(figures.sqnr_db, 5)} dB, "
        f"{float_text(total.bits_per_weight, 5)} bits per weight",
    ]
    if whole:
        lines += _left_over(matching)
    wrapped = click.wrap_text(ABOUT_ERRORS, min(100, line_width()))
    return "\n".join([*lines, "", wrapped]) + "\n"


def _left_over(matching: Matching) -> Iterator[str]:
    """Yield lines about what was not compared."""
    if matching.not_comparable:
        yield "\n" + style("Not comparable", bold=True)
    for pair in matching.not_comparable[:_SHOWN_NAMES]:
        yield f"  {plain_text(_called(pair))}: {plain_text(pair.reason)}"
    yield from _more(len(matching.not_comparable))
    for side, names in (
        ("reference", matching.unmatched_reference),
        ("candidate", matching.unmatched_candidate),
    ):
        if names:
            yield "\n" + style(f"Only in the {side}", bold=True)
            yield from (f"  {plain_text(name)}" for name in names[:_SHOWN_NAMES])
            yield from _more(len(names))


def _called(pair: Mismatch) -> str:
    return " and ".join(dict.fromkeys(filter(None, (pair.reference_name, pair.candidate_name))))


def _more(count: int) -> Iterator[str]:
    if count > _SHOWN_NAMES:
        yield f"  and {integer_text(count - _SHOWN_NAMES)} more; --json lists all"
