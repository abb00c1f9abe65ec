"""Patterns of configurations: what `re` says, in bounded time; None outside of the language."""

from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from explorer.formats.quantized.patterns import bounded_work, matches, matches_wholly

ATOMS = ("a", "b", "c", ".", r"\.", r"\d", "[ab]", "[^a]", "[0-9]", "(a|b)", "(?:ab|)", "(a*b)")
PIECES = st.tuples(st.sampled_from(ATOMS), st.sampled_from(("", "*", "+", "?", "*?", "+?")))
PATTERNS = st.lists(PIECES, max_size=6).map(lambda pieces: "".join(map("".join, pieces)))
FRAMED = st.builds(
    "{}{}{}".format, st.sampled_from(("", "^")), PATTERNS, st.sampled_from(("", "$"))
)


@given(FRAMED, st.text("abc.1", max_size=12))
def test_a_pattern_matches_as_in_python(pattern: str, text: str) -> None:
    assert matches(pattern, text) is (re.match(pattern, text) is not None)
    assert matches_wholly(pattern, text) is (re.fullmatch(pattern, text) is not None)


@given(st.text("ab()[]{}*+?|^$\\.d-!=<:", max_size=24), st.text("abd.", max_size=12))
def test_any_text_is_a_pattern_or_is_not_evaluated(pattern: str, text: str) -> None:
    found = matches(pattern, text)
    if found is not None:
        assert found is (re.match(pattern, text) is not None)


def test_real_rules() -> None:
    module = "model.layers.11.mlp.down_proj"
    assert matches(r".*\.mlp\.down_proj", module)
    assert matches(r".*\.self_attn\.k_proj.*", module) is False
    assert matches(r"model\.layers\.(1|2|11)\..*", module)
    assert matches(r".*lm_head", "lm_head")
    assert matches(r"model\.layers\.\d+\.mlp\.(gate|up|down)_proj$", module)


def test_what_other_engines_run_for_hours_takes_no_time() -> None:
    start = time.perf_counter()
    assert matches("([a-z0-9._]+)+!", "model.layers.0.self_attn.q_proj" * 10) is False
    assert matches("(a|a?)*" * 40 + "b", "a" * 300) in {None, False}
    assert time.perf_counter() - start < 2


def test_what_is_outside_of_the_language_is_not_evaluated() -> None:
    for pattern in ("(?=a)b", "a{3}", r"(a)\1", "(?i)a", "(", "a" * 600, r"\b", "(?P<n>a)"):
        assert matches(pattern, "aaa") is None
    assert matches("a", "a" * 600) is None


def test_all_patterns_of_a_model_share_a_bound_of_work() -> None:
    with bounded_work(1000):
        found = [matches("a.*b", f"a{number}b") for number in range(1000)]
    assert found[0] is True
    assert found[-1] is None
    assert matches("a.*b", "a1b") is True
