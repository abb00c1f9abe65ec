"""Searching names: what holds every word, and in which order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.formats.tensors import natural_key
from explorer.qt.document import _PIECE, NameList, name_list


def names_of(*names: str) -> NameList:
    return name_list([name.lower() for name in names])


def found(query: str, *names: str, most: int = 50) -> list[str]:
    matches, _ = names_of(*names).search(query.split(), most)
    return [names[match.position] for match in matches]


def test_an_exact_layer_number_ranks_before_a_digit_of_another() -> None:
    names = [
        "blk.10.attn_k.weight", "blk.0.attn_norm.weight", "blk.20.attn_v.weight", "blk.0.ffn.weight"
    ]  # fmt: skip
    assert found("attn 0", *names) == [names[1], names[0], names[2]]
    assert found("0 attn_k", *names) == [names[0]]


def test_whole_words_then_starts_then_natural_order() -> None:
    names = ["reoutput", "outputs", "the output", "output.10", "output.9", "Output"]
    assert found("output", *names) == [
        "Output", "output.9", "output.10", "the output", "outputs", "reoutput",
    ]  # fmt: skip


def test_a_word_may_hold_signs_and_is_looked_for_as_it_is() -> None:
    names = ["a.b_c", "a_b.c", "xa.b_c"]
    assert found("a.b", *names) == ["a.b_c", "xa.b_c"]
    assert found("_", *names) == ["a.b_c", "a_b.c", "xa.b_c"]
    assert found("::", *names) == []


def test_line_ends_and_other_scripts_in_names() -> None:
    names = ["two\nlines", "größe 1", "日本 語", "", "\udcff"]
    assert found("lines", *names) == ["two\nlines"]
    assert found("größe", *names) == ["größe 1"]
    assert found("語", *names) == ["日本 語"]
    assert len(found("", *names)) == 5


def test_no_name_is_lost_between_the_pieces() -> None:
    count = 2 * _PIECE + 3
    names = names_of(*(f"t{number}" for number in range(count)))
    matches, total = names.search(["t"], 10)
    assert total == count
    assert [match.position for match in matches] == list(range(10))
    for position in (0, _PIECE - 1, _PIECE, 2 * _PIECE, count - 1):
        (match,), total = names.search([f"t{position}"], 1)
        assert match.position == position
        assert total >= 1


def test_no_names_are_fine() -> None:
    assert names_of().search(["x"], 5) == ([], 0)
    assert names_of().search([], 5) == ([], 0)


@settings(max_examples=60)
@given(
    st.lists(st.text("ab.0 1\n", max_size=6), max_size=12),
    st.lists(st.text("ab.01", min_size=1, max_size=2), min_size=1, max_size=3),
    st.integers(1, 14),
)
def test_it_finds_what_a_plain_search_finds(names: list[str], words: list[str], most: int) -> None:
    matches, count = name_list(names).search(words, most)
    wanted = {i for i, name in enumerate(names) if all(word in name for word in words)}
    assert count == len(wanted)
    assert len(matches) == min(most, count)
    assert {match.position for match in matches} <= wanted
    keys = [
        (match.misses, match.inside, natural_key(names[match.position]), names[match.position])
        for match in matches
    ]
    assert keys == sorted(keys)
    for match in matches:
        assert match.inside is not names[match.position].startswith(words[0])
        assert 0 <= match.misses <= len(words)
