"""Names of enumerated values; the numbers are those of docs/gguf.md, sections 6 and 9."""

from __future__ import annotations

import pytest

from explorer.formats.facts import FILE_TYPES, enum_name


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        ("general.file_type", 0, "F32"),
        ("general.file_type", 15, "Q4_K_M"),
        ("general.file_type", 17, "Q5_K_M"),
        ("general.file_type", 33, "removed (Q4_0_4_4)"),
        ("general.file_type", 1024 + 7, "Q8_0 (guessed)"),
        ("general.file_type", 1024 + 500, "500 (guessed)"),
        ("general.file_type", 500, "500"),
        ("tokenizer.ggml.token_type", 6, "byte"),
        ("tokenizer.ggml.token_type", 60, "60"),
        ("bert.pooling_type", 4, "rank"),
        ("deepseek2.expert_gating_func", 2, "sigmoid"),
        ("general.file_type", "15", None),
        ("general.file_type", True, None),
        ("general.file_type", 15.0, None),
        ("llama.block_count", 15, None),
    ],
)
def test_names(key: str, value: object, name: str | None) -> None:
    assert enum_name(key, value) == name


def test_against_the_gguf_package() -> None:
    gguf = pytest.importorskip("gguf")
    for member in gguf.LlamaFileType:
        name = member.name.removeprefix("MOSTLY_").removeprefix("ALL_")
        if member.value in FILE_TYPES and member.name != "GUESSED":
            assert FILE_TYPES[member.value] == name
    for member in gguf.TokenType:
        assert enum_name("tokenizer.ggml.token_type", int(member)) == {
            "USER_DEFINED": "user-defined"
        }.get(member.name, member.name.lower())
    for member in gguf.PoolingType:
        assert enum_name("x.pooling_type", int(member)) == member.name.lower()
