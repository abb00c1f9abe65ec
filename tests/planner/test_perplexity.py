"""What `llama-perplexity` prints, and tables of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import FormatError
from explorer.planner.logs.perplexity import Quality, read_quality

# As printed: ggml-org/llama.cpp #19661 and ikawrakow/ik_llama.cpp #817.
DIVERGENCE = """\
llama_model_loader: loaded meta data with 30 key-value pairs and 291 tensors from \
/models/m-Q4_K_M.gguf (version GGUF V3 (latest))
chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence
 129      15.9194 ±    0.2959       0.16444 ±    0.00932       0.61541 ±    0.00678

====== Perplexity statistics ======
Mean PPL(Q)                   :  15.919427 ±   0.295934
Mean PPL(base)                :  13.505476 ±   0.255762
Cor(ln(PPL(Q)), ln(PPL(base))):  87.69%
Mean ln(PPL(Q)/PPL(base))     :   0.164445 ±   0.009317
Mean PPL(Q)-PPL(base)         :   2.413951 ±   0.142312

====== KL divergence statistics ======
Mean    KLD:   0.017475 ±   0.000763
Maximum KLD:  11.152802
99.9%   KLD:   1.098822
99.0%   KLD:   0.221226
Median  KLD:   0.004062
Minimum KLD:  -0.000423

====== Token probability statistics ======
Same top p: 89.938 ± 0.078 %
"""
WANTED = {
    "perplexity": 15.919427,
    "perplexity_error": 0.295934,
    "divergence": 0.017475,
    "divergence_error": 0.000763,
    "divergence_99_9": 1.098822,
    "divergence_median": 0.004062,
    "same_top": 0.89938,
}


def write(tmp_path: Path, text: str | bytes, name: str = "log.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_run_with_kl_divergence(tmp_path: Path) -> None:
    (found,) = read_quality(write(tmp_path, DIVERGENCE))
    assert found.model == "/models/m-Q4_K_M.gguf"
    assert found.figures == pytest.approx(WANTED)
    # Windows' own shell writes UTF-16, and others garble the sign
    (wide,) = read_quality(write(tmp_path, DIVERGENCE.encode("utf-16-le")))
    assert wide == found
    (garbled,) = read_quality(write(tmp_path, DIVERGENCE.replace("±", "┬▒")))
    assert garbled == found


def test_a_run_of_perplexity_alone_is_called_after_its_file(tmp_path: Path) -> None:
    text = "[1]4.3196,[2]6.0868\n1.12.579.214 I Final estimate: PPL = 6.7983 +/- 0.07405\n"
    (found,) = read_quality(write(tmp_path, text, "Q4_K_M.txt"))
    assert found == Quality("Q4_K_M", {"perplexity": 6.7983, "perplexity_error": 0.07405})


def test_several_runs_in_one_file(tmp_path: Path) -> None:
    other = DIVERGENCE.replace("m-Q4_K_M", "m-Q8_0").replace("0.017475", "0.001")
    failed = DIVERGENCE.splitlines()[0].replace("m-Q4_K_M", "m-Q2_K") + "\nkl_divergence: failed\n"
    found = read_quality(write(tmp_path, DIVERGENCE + failed + other))
    assert [one.model for one in found] == ["/models/m-Q4_K_M.gguf", "/models/m-Q8_0.gguf"]
    assert found[1].figures["divergence"] == 0.001


@pytest.mark.parametrize("comma", [",", ";", "\t"])
def test_a_table(tmp_path: Path, comma: str) -> None:
    lines = ["Model,PPL,Mean KLD,same_top_p", "m-Q4_K_M,6.1,0.02,97.5 %", "m-Q8_0.gguf,6.0,,0.99"]
    text = "\n".join(lines).replace(",", comma)
    one, other = read_quality(write(tmp_path, text, "results.csv"))
    assert one == Quality("m-Q4_K_M", {"perplexity": 6.1, "divergence": 0.02, "same_top": 0.975})
    assert other == Quality("m-Q8_0.gguf", {"perplexity": 6.0, "same_top": 0.99})


@pytest.mark.parametrize(
    ("model", "is_of"),
    [
        ("/x/m-Q4_K_M.gguf", True),
        ("C:\\x\\M-Q4_K_M.gguf", True),
        ("/x/other-Q4_K_M.gguf", False),
        ("m-Q4_K_M", True),
        ("Q4_K_M", True),
        ("ppl-q4_k_m", True),
        ("Q4_K", False),
        ("IQ4_K_M", False),
    ],
)
def test_whose_figures_they_are(model: str, is_of: bool) -> None:
    assert Quality(model, {}).is_of(Path("/models/m-Q4_K_M.gguf"), "Q4_K_M") is is_of


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing of the kind",
        "Final estimate: PPL = nan +/- nan",
        "Final estimate: PPL = -5.0 +/- 1",
        "model,ppl\n",
        "model,ppl\nm,inf\n",
        "\0" * 1000,
        '"' * 500_000,
    ],
)
def test_what_says_nothing_is_one_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(FormatError, match="neither perplexity"):
        read_quality(write(tmp_path, text))


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(FormatError, match="larger than 16 MiB"):
        read_quality(path)


@given(st.binary(max_size=2000), st.booleans())
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, table: bool) -> None:
    path = tmp_path_factory.mktemp("any") / "log"
    path.write_bytes((b"model,ppl,kld\n" if table else DIVERGENCE[:400].encode()) + data)
    try:
        found = read_quality(path)
    except FormatError:
        return
    assert all(one.figures for one in found)


def test_a_later_run_wins_only_for_what_it_says() -> None:
    first = Quality("m.txt", {"perplexity": 9.0, "perplexity_error": 0.1, "divergence": 0.02})
    later = Quality("m.csv", {"perplexity": 8.0})
    assert first.corrected(later) == Quality("m.csv", {"perplexity": 8.0, "divergence": 0.02})
