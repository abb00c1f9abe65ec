"""`gguf-explorer compare` and `requantize`: errors of weights against a reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from functools import partial
from itertools import chain
from math import isnan
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import click

from explorer.analysis.columns import Source
from explorer.analysis.errors.compare import Comparison, TotalErrors, lists_of_all, total_of, unread
from explorer.analysis.errors.models import error_sums
from explorer.analysis.importance import importance_for
from explorer.analysis.matching.pairing import Match, Matching, match_models
from explorer.analysis.requantization import requantize
from explorer.analysis.rounding import rounded_type, rounding_types
from explorer.analysis.surveys import PairRow
from explorer.cli import options, output
from explorer.cli.folders import compare_folder
from explorer.errors import ExplorerError
from explorer.formats import Model, Tensor, open_model
from explorer.formats.attachments import open_matrix
from explorer.formats.ollama.manifest import is_name
from explorer.formats.weights import Values
from explorer.planner.logs.perplexity import read_quality
from explorer.present import differences, errors
from explorer.present.explanations import ABOUT_ERRORS
from explorer.present.survey import summaries_record
from explorer.present.tables.differences import (
    KEYS,
    ROLES,
    SIDES,
    SIZES,
    TENSORS,
    SidesRow,
    side_rows,
)
from explorer.present.tables.errors import FIGURES, REQUANTIZED, WEIGHTED, compared_table
from explorer.present.tables.table import Table
from explorer.text import bits_text, bytes_text, integer_text, plain_text, shape_text

_Row = TypeVar("_Row")
_LONGEST_NAME: Final = 48
_SHOWN_NAMES: Final = 8
_SHOWN_ROWS: Final = 100
_SHORT_VALUE: Final = 32
_TOTAL: Final = ("rmse", "relative_rmse", "sqnr_db")


# compare


@click.command("compare")
@click.argument("reference", type=click.Path())
@click.argument("candidate", type=click.Path(), required=False)
@click.option(
    "names",
    "--tensor",
    multiple=True,
    metavar="NAME",
    help="Compare only this tensor, named as in either model. May be given several times.",
)
@options.path_option("--imatrix", "Importance matrix of llama.cpp: errors are weighted by it, too.")
@options.path_option(
    "--original",
    "Compare both models, or all of a folder, with this one, which they were made of.",
    "PATH",
)
@options.table_files
@options.workers_option
@options.root_option
@options.fetch_option
@options.offline_option
@options.json_option
def compare_command(  # noqa: PLR0913 - one for each argument and option
    reference: str,
    candidate: str | None,
    *,
    names: tuple[str, ...],
    imatrix: str | None,
    original: str | None,
    files: output.TableFiles,
    workers: int,
    root: str | None,
    fetch: bool,
    as_json: bool,
) -> int:
    """Show the errors of CANDIDATE's weights against those of REFERENCE, tensor by tensor.

    Every weight is compared. The two may be of different formats: names are matched, and what a
    converter did to the weights (rows of llama's q and k permuted, 1 added to Gemma's norms,
    experts stacked) is undone. What cannot be compared is listed with the reason.

    With --original the two are A and B, and each is compared with the original: errors of A, of B
    and their difference, tensor by tensor, by role, by layer and in all.

    A folder alone, with --original, stands for all models in it: one line for each, with the errors
    of all its matrices. What was read is kept, so a command that was stopped goes on where it was.

    With --imatrix each squared error also counts by the importance of its column, as llama-quantize
    weighs it. Without a matrix all weights count alike.

    Weight error ranks tensors of one role (all ffn_down, say) and types of one tensor. It does not
    by itself predict the quality of a model's answers.

    \b
    Examples:
      gguf-explorer compare model-bf16.gguf model-Q4_K_M.gguf
      gguf-explorer compare Llama-3-8B/ llama-3-8b-Q4_K_M.gguf --csv errors.csv
      gguf-explorer compare model-bf16.gguf model-IQ2_M.gguf --imatrix imatrix.gguf
      gguf-explorer compare model-Q4_K_M.gguf model-Q5_K_M.gguf --original model-bf16.gguf
      gguf-explorer compare ~/models/gemma --original model-bf16.gguf --csv errors.csv
      gguf-explorer compare a.gguf b.gguf --json | jq '.tensors | max_by(.relative_rmse)'
    """
    if candidate is None:
        if original is None or names:
            raise click.UsageError("name two models, or a folder and --original, without --tensor")
        how = {"fetch": fetch, "as_json": as_json}
        return compare_folder(reference, original, imatrix, files, workers, **how)
    given = tuple(one for one in (reference, candidate, original) if one is not None)
    asked = _Asked(given, list(_paths(given, root)), names, imatrix, files, workers, fetch)
    if original is not None:
        return _compare_both(asked, as_json=as_json)
    described = compared_table(weighted=imatrix is not None)
    with ExitStack() as stack:
        one, (two,), (matching,), (comparison,) = _opened(stack, asked, asked.paths)
        shown = as_json or not output.on_terminal()
        with output.Progress(comparison.parameters, shown=shown) as line:
            rows = comparison.rows(workers, progress=line.counter("weights"))
            if not as_json:
                known = [PairRow(at, pair, None) for at, pair in enumerate(comparison.pairs)]
                rows = output.print_rows(
                    described, known, rows, needed=files.wanted, longest=_LONGEST_NAME
                )
            found = list(rows)
        total, sums = total_of(found), error_sums(two, found)
        first = errors.Side.of("the reference", one)
        headline = errors.headline(first, errors.Side.summed("The candidate", two, sums))
    files.save(described.names, map(described.flat, found))
    more = [] if imatrix is None else WEIGHTED.names
    if as_json:
        document = errors.document((reference, candidate), found, matching, total, imatrix)
        output.write_json(
            document | {"headline": headline, "sums": summaries_record(sums, Source.ERRORS, *more)}
        )
    else:
        if not names and len(found) == len(comparison.pairs):
            output.write(output.style(f"\n{output.wrapped(headline)}\n", bold=True))
            output.write(output.sums_text(sums, Source.ERRORS, *more))
        output.write("".join(_summary(matching, total, whole=not names)))
    return _exit_code(found)


def _exit_code(rows: Iterable[PairRow]) -> int:
    """Write which pair could not be read first, if any; return the exit code."""
    return output.exit_code(next((row.error for row in rows if row.error is not None), None))


class _Asked(NamedTuple):
    """What `compare` compares, and how: A and B with their original last, or the two alone."""

    given: tuple[str, ...]
    paths: Sequence[Path]
    names: tuple[str, ...]
    imatrix: str | None
    files: output.TableFiles
    workers: int
    fetch: bool


def _opened(
    stack: ExitStack, asked: _Asked, paths: Sequence[Path]
) -> tuple[Model, list[Model], list[Matching], list[Comparison]]:
    """Open a model and those that are compared with it; say how much is to be read."""
    reference, *candidates = (stack.enter_context(open_model(path)) for path in paths)
    asked.files.check()
    options.agree_to_fetch((reference, *candidates), asked.fetch or bool(asked.names))
    matrix = options.open_given(stack, asked.imatrix, open_matrix)
    matchings = [match_models(reference, model) for model in candidates]
    both = [(reference, model) for model in candidates]
    comparisons = [
        Comparison(_chosen(matching, asked.names, models), importance=matrix, models=models)
        for matching, models in zip(matchings, both, strict=True)
    ]
    left = chain.from_iterable(one.left() for one in comparisons)
    output.write_to_read(*unread(left), asked.workers)
    return reference, candidates, matchings, comparisons


def _compare_both(asked: _Asked, *, as_json: bool) -> int:
    """Compare two models with their original."""
    given, paths, names, imatrix, files, workers, _ = asked
    with ExitStack() as stack:
        _, both, matchings, comparisons = _opened(stack, asked, (paths[-1], *paths[:-1]))
        total = sum(comparison.parameters for comparison in comparisons)
        with output.Progress(total) as line:
            found = lists_of_all(comparisons, workers, progress=line.counter("weights"))
        sums = [error_sums(model, rows) for model, rows in zip(both, found, strict=True)]
        pair = zip("AB", both, sums, strict=True)
        headline = errors.headline(*(errors.Side.summed(*side) for side in pair))
    rows = side_rows(*found)
    files.save(SIDES.names, map(SIDES.flat, rows))
    more = [] if imatrix is None else WEIGHTED.names
    totals = list(map(total_of, found))
    if as_json:
        output.write_json(
            errors.document_of_both(given, rows, matchings, totals, imatrix)
            | {
                "headline": headline,
                "sums": {
                    side: summaries_record(one, Source.ERRORS, *more)
                    for side, one in zip("ab", sums, strict=True)
                },
            }
        )
    else:
        output.write(output.style(f"{output.wrapped(headline)}\n\n", bold=True))
        output.write(output.table_of(SIDES, _worst_first(rows), _LONGEST_NAME))
        for side, one, matching, whole in zip("AB", sums, matchings, totals, strict=True):
            output.write(output.style(f"\n{side} against the original\n", bold=True))
            if not names:
                output.write(output.sums_text(one, Source.ERRORS, *more))
            output.write("".join(_summary(matching, whole, whole=not names)))
    return _exit_code(chain.from_iterable(found))


def _worst_first(rows: Iterable[SidesRow]) -> list[SidesRow]:
    """Return the tensors that lost most in either model first; those without figures last."""

    def loss(row: SidesRow) -> float:
        known = (
            side.errors.metrics.relative_rmse for side in (row.a, row.b) if side and side.errors
        )
        return -max((one for one in known if not isnan(one)), default=-1.0)

    return sorted(rows, key=loss)


def _paths(given: Sequence[str], root: str | None) -> Iterator[Path]:
    """Yield the paths to open; --root is for those that are names."""
    if root is not None and not any(map(is_name, given)):
        raise click.UsageError("--root belongs to a name of a model, such as ollama:llama3")
    for path in given:
        if not path:
            raise click.UsageError("the path of a model is empty")
        yield options.model_path(path, root if is_name(path) else None)


def _chosen(matching: Matching, names: Sequence[str], models: Sequence[Model]) -> list[Match]:
    """Return the pairs that are asked for; all if none are.

    Raises:
        ExplorerError: A name is not known, or its tensor is not comparable.
    """
    if not names:
        return list(matching.matches)
    places: dict[str, list[int]] = {}
    for place, match in enumerate(matching.matches):
        views = (match.reference, match.candidate)
        for name in {view.name for view in views} | {t.name for v in views for t in v.tensors}:
            places.setdefault(name, []).append(place)
    chosen: dict[int, None] = {}
    for name in names:
        if name not in places:
            raise ExplorerError(_why_not(matching, name, list(places)), models[0].path)
        chosen |= dict.fromkeys(places[name])
    return [matching.matches[place] for place in chosen]


def _why_not(matching: Matching, name: str, known: Sequence[str]) -> str:
    for pair in matching.not_comparable:
        if name in {pair.reference_name, pair.candidate_name}:
            return f"tensor {name!r} is not comparable: {pair.reason}"
    if name in {*matching.unmatched_reference, *matching.unmatched_candidate}:
        return f"tensor {name!r} is only in one of the two models"
    similar = get_close_matches(name, known, n=1)
    hint = f"Did you mean {similar[0]!r}?" if similar else "`compare` without --tensor lists them"
    return f"neither model has a tensor {name!r}. {hint}"


def _summary(matching: Matching, total: TotalErrors, *, whole: bool) -> Iterator[str]:
    """Yield what stands below the rows: totals, and what was not compared."""
    figures = total.metrics
    shown = [FIGURES[name] for name in _TOTAL]
    totals = ", ".join(f"{column.title} {column.cell(figures)}" for column in shown)
    if total.weighted.signal:
        totals += "".join(f", {c.title} {c.cell(total.weighted)}" for c in WEIGHTED)
    if not figures.count:
        yield "\nNothing was compared\n"
    else:
        yield output.heading("All compared tensors, norms and biases included")
        bits = bits_text(total.bits_per_weight)
        yield f"  {integer_text(figures.count)} weights, {totals}, {bits} bits per weight\n"
    if whole:
        pairs = [
            " and ".join(dict.fromkeys(filter(None, (pair.reference_name, pair.candidate_name))))
            + f": {pair.reason}"
            for pair in matching.not_comparable
        ]
        yield from _named("Not comparable", pairs)
        yield from _named("Only in the reference", matching.unmatched_reference)
        yield from _named("Only in the candidate", matching.unmatched_candidate)
    yield f"\n{output.wrapped(ABOUT_ERRORS)}\n"


def _named(title: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        yield output.heading(title)
    yield from (f"  {plain_text(name)}\n" for name in names[:_SHOWN_NAMES])
    yield output.left_out_text(len(names) - _SHOWN_NAMES)


# diff


@click.command("diff")
@click.argument("one", metavar="A", type=click.Path())
@click.argument("other", metavar="B", type=click.Path())
@click.option("measured", "--errors", is_flag=True, help="Read all weights and compare them, too.")
@options.path_option(
    "--original", "Compare the weights of both with this model, which they were made of.", "PATH"
)
@options.path_option(
    "--measured",
    "Perplexity or KL divergence of either: output of llama-perplexity, or a CSV.",
    name="quality",
    multiple=True,
    kind=options.PATH,
)
@click.option(
    "context",
    "--context",
    type=click.IntRange(1, 1 << 30),
    default=differences.CONTEXT,
    show_default=True,
    metavar="N",
    help="Tokens of the plan of memory that both get.",
)
@options.workers_option
@options.root_option
@options.fetch_option
@options.offline_option
@options.json_option
def diff_command(  # noqa: PLR0913 - one for each argument and option
    one: str,
    other: str,
    *,
    measured: bool,
    original: str | None,
    quality: tuple[Path, ...],
    context: int,
    workers: int,
    root: str | None,
    fetch: bool,
    as_json: bool,
) -> int:
    """Show what the models A and B differ in: metadata, tensors, types, sizes, memory, texts.

    It reads the headers, which takes a moment. With --errors it reads all weights: without the
    original, the figures are a distance between the two; with --original each is compared with
    the original, and the figures are a loss.

    \b
    Examples:
      gguf-explorer diff model-Q4_K_M.gguf model-Q5_K_M.gguf
      gguf-explorer diff a.gguf b.gguf --original model-bf16.gguf
      gguf-explorer diff a.gguf b.gguf --original bf16.gguf --measured perplexity.csv
      gguf-explorer diff Llama-3-8B/ llama-3-8b-Q8_0.gguf --json | jq .tensors.changed
    """
    given = (one, other) if original is None else (one, other, original)
    with ExitStack() as stack:
        models = [stack.enter_context(open_model(path)) for path in _paths(given, root)]
        found = differences.Comparison.of(models[0], models[1], context)
        found = found.with_measured([one for path in quality for one in read_quality(path)])
        if measured or original is not None:
            options.agree_to_fetch(models, fetch)
            pair = models[0], models[1]
            third = None if original is None else models[2]
            line = stack.enter_context(output.Progress(0))
            found = found.with_errors(
                differences.measure_errors(pair, third, workers, partial(line.show, what="weights"))
            )
        if as_json:
            output.write_json(differences.document(found, (one, other)))
        else:
            output.write("".join(_diff_text(found, (one, other))))
    return 0


def _diff_text(found: differences.Comparison, paths: tuple[str, str]) -> Iterator[str]:
    for name, path in zip("AB", paths, strict=True):
        yield output.style(f"{name}  {plain_text(path)}", bold=True) + "\n"
    yield "".join(f"\n{output.wrapped(plain_text(line))}" for line in differences.summary(found))
    yield "\n" + output.heading(SIZES.title)
    yield output.table_of(SIZES, list(differences.size_rows(found)))
    if found.is_planned:
        yield f"  Memory: {found.plan}\n"
    keys = differences.key_rows(found, _SHORT_VALUE)
    tensors = [one for one in found.found.tensors if one.kind != "same"]
    yield _section(ROLES.title, ROLES, differences.role_rows(found) if found.found.tensors else [])
    yield _section(KEYS.title, KEYS, keys, counted=True)
    yield _section("Tensors that differ", TENSORS, tensors, counted=True)
    for text in found.found.texts:
        yield output.heading(
            f"{plain_text(text.key)}: {text.removed} lines of A, {text.added} of B"
        )
        yield "".join(f"  {plain_text(line)}\n" for line in differences.text_lines(text))
    vocabulary = found.found.vocabulary
    if vocabulary is not None:
        yield output.heading("Vocabulary")
        lines_of = differences.vocabulary_lines(vocabulary)
        yield "".join(f"  {plain_text(line)}\n" for line in lines_of)


def _section(
    title: str, described: Table[_Row], rows: Sequence[_Row], *, counted: bool = False
) -> str:
    """Return a table with its heading; "" without rows."""
    if not rows:
        return ""
    head = output.heading(title, len(rows) if counted else None)
    return head + output.table_of(described, rows, _LONGEST_NAME, _SHOWN_ROWS)


# requantize


def _checked_types(
    _context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]
) -> list[str]:
    words = [word.strip() for words in value for word in words.split(",")]
    names = [name for word in words for name in (rounding_types() if word == "all" else (word,))]
    for name in names:
        options.parsed_by(rounded_type)(name)
    return list(dict.fromkeys(names))


@click.command("requantize")
@options.path_argument
@options.tensor_argument
@click.option(
    "types",
    "--to",
    multiple=True,
    required=True,
    metavar="TYPE[,TYPE…]",
    callback=_checked_types,
    help=(
        "Types to round to: GGUF's (Q4_K), Ollama's and MLX's (int4, int4/32, mxfp8), those of "
        "Hugging Face models (w4a16/128, nf4/double, fp8/128x128); or all."
    ),
)
@options.path_option(
    "--imatrix",
    "Importance matrix of llama.cpp, in GGUF, that steers the search. Some types need one.",
)
@options.table_files
@options.workers_option
@options.root_option
@options.json_option
def requantize_command(  # noqa: PLR0913 - one for each argument and option
    path: str,
    name: str,
    *,
    types: list[str],
    imatrix: str | None,
    files: output.TableFiles,
    workers: int,
    root: str | None,
    as_json: bool,
) -> int:
    """Show size and errors of the tensor named TENSOR of the model at PATH in other types.

    It is rounded in memory; no file is written. Errors are those against the tensor as it is: for
    one that is quantized already, they come on top of its errors so far.

    Weight error ranks types of one tensor. It does not by itself predict the quality of a model's
    answers.

    \b
    Examples:
      gguf-explorer requantize model-bf16.gguf blk.0.ffn_down.weight --to Q4_K,Q5_K,IQ4_XS
      gguf-explorer requantize Llama-3-8B/ lm_head.weight --to w4a16/128,hqq4/64,nf4
      gguf-explorer requantize Llama-3-8B/ lm_head.weight --to all --json
    """
    with open_model(options.model_path(path, root)) as model:
        files.check()
        tensor = options.find_tensor(model, name)
        notes = [*options.notes_on(model, tensor), *errors.rounding_notes(types)]
        importance = None if imatrix is None else _importance(imatrix, tensor)
        with output.Progress(len(types) * tensor.parameters) as line:
            count = line.counter(tensor.name)
            found = list(requantize(tensor, types, importance, workers, progress=count))
    flat = REQUANTIZED.without(*(name for name in REQUANTIZED.names if "percentile" in name))
    files.save(flat.names, map(flat.flat, found))
    if as_json:
        output.write_json(
            {
                "path": path,
                "tensor": tensor.name,
                "type": tensor.type.name,
                "shape": list(tensor.shape),
                "count": tensor.parameters,
                "bytes": tensor.nbytes,
                "bits_per_weight": tensor.bits_per_weight,
                "results": [REQUANTIZED.record(row) for row in found],
                "notes": [*notes, ABOUT_ERRORS],
            }
        )
    else:
        output.write(_title(tensor) + output.table_of(REQUANTIZED, found))
        lines = [f"Note: {plain_text(note)}" for note in notes]
        output.write("\n".join(["", *lines, output.wrapped(ABOUT_ERRORS), ""]))
    return 0


def _importance(path: str, tensor: Tensor) -> Values:
    with open_matrix(options.model_path(path)) as matrix:
        found = importance_for(matrix, tensor.name, tensor)
    if found is None:
        raise ExplorerError(f"the importance matrix has no tensor {tensor.name!r}", path)
    return found


def _title(tensor: Tensor) -> str:
    kind, shape = plain_text(tensor.type.name), shape_text(tensor.shape)
    title = output.style(f"{plain_text(tensor.name)}  {kind}  {shape}", bold=True)
    size = f"{bytes_text(tensor.nbytes)}, {bits_text(tensor.bits_per_weight)} bits per weight"
    return f"{title}\n  {size}\n\n"
