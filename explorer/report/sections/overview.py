"""What the model is, at a glance."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from explorer.report.components import cut, paragraph, section
from explorer.report.elements import Element, element
from explorer.report.gathering import Evidence
from explorer.report.privacy import without_paths
from explorer.text import bytes_text, count_text, float_text, integer_text

_SHOWN_FILES = 50


def overview(evidence: Evidence) -> Element:
    """Return the facts, and the sentences that one would look for first."""
    facts = [
        element("div", element("dt", label), element("dd", without_paths(cut(text))))
        for label, text in _facts(evidence)
    ]
    return section(
        "overview",
        "Overview",
        element("dl", *facts, class_="facts"),
        paragraph(evidence.recipe_verdict, "verdict"),
        _problems_line(evidence),
        _files(evidence),
    )


def _facts(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield what is known of the model."""
    facts, model = evidence.facts, evidence.model
    bits = facts.bits_per_weight
    version = "" if model.version is None else f" version {model.version}"
    kind = "GGUF" if model.format == "gguf" else model.format
    known = (
        ("Name", facts.name),
        ("Format", f"{kind}{version}"),
        ("Architecture", facts.architecture),
        ("File type, as it says", facts.file_type),
        ("Parameters", _told(facts.parameters, count_text)),
        ("Size of tensors", _told(facts.nbytes, bytes_text)),
        ("Bits per weight", None if bits is None else float_text(bits, 4)),
        ("Tensors", integer_text(len(model.tensors.rows))),
        ("Context length", _told(facts.context_length, integer_text)),
        ("Layers", _told(facts.layers, integer_text)),
        ("Embedding length", _told(facts.embedding_length, integer_text)),
        ("Feed-forward length", facts.feed_forward_length),
        ("Attention heads", facts.heads),
        ("KV heads", facts.kv_heads),
        ("Experts", _told(facts.experts, integer_text)),
        ("Vocabulary", _told(facts.vocabulary, integer_text)),
        ("Tokenizer", facts.tokenizer),
        ("Licence", facts.license),
    )
    return ((label, text) for label, text in known if text)


def _told(number: int | None, text: Callable[[int], str]) -> str | None:
    return None if number is None else text(number)


def _problems_line(evidence: Evidence) -> Element:
    count = len(evidence.model.problems)
    if not count:
        return element("p", element("strong", "✓ No problems"), " were found in its header.")
    noun = "problem was" if count == 1 else "problems were"
    link = element("a", "see the checks", href="#checks")
    return element(
        "p",
        element("strong", f"⚠ {integer_text(count)} {noun} found", class_="warn"),
        "; ",
        link,
        ".",
    )


def _files(evidence: Evidence) -> Element | None:
    files = evidence.model.files
    if not files:
        return None
    names = [f"{cut(f.path.name)} ({bytes_text(f.source.size)})" for f in files[:_SHOWN_FILES]]
    left = len(files) - len(names)
    more = f", and {integer_text(left)} more" if left else ""
    noun = "File" if len(files) == 1 else "Files"
    return paragraph(f"{noun}: {', '.join(names)}{more}.", "faint")
