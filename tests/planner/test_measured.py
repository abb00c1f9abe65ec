"""A log beside the plan: no difference where there is none; what remains goes to the reserve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import PlanError
from explorer.formats import open_model
from explorer.planner.engines.llama_cpp.allocation import Settings, allocate
from explorer.planner.logs.comparison import Comparison, Residual, measured_record
from explorer.planner.logs.measured import _known, compare, load_for
from explorer.planner.logs.reading import parse_log, read_log
from explorer.present import measured as words
from tests.planner import log_samples as samples
from tests.planner.models import plain_metadata, tensor_table
from tests.planner.test_contexts import model_of

GIB, MIB = 1 << 30, 1 << 20


def compared(text: str, base: Settings | None = None, experts: int = 0) -> Comparison:
    measured = parse_log([text.encode()]).load_of("llama")
    return compare(samples.tiny_model(experts), measured, base or Settings())


@given(
    parallel=st.integers(1, 4),
    context=st.integers(1, 60).map(lambda n: n * 256),
    gpu_layers=st.integers(0, 12),
    flash_attention=st.booleans(),
    kv_unified=st.booleans(),
    type_k=st.sampled_from(["f16", "q8_0", "q4_0"]),
    devices=st.integers(0, 2),
)
def test_a_log_of_what_was_planned_has_no_difference(**asked: object) -> None:
    settings = replace(Settings(), **asked)  # type: ignore[arg-type]
    model = samples.tiny_model()
    text = samples.server_log(allocate(model, settings), settings, prefix="0.01.135.827 I ")
    found = compared(text)
    assert found.settings.context == allocate(model, settings).n_ctx
    assert all(one.agrees for one in found.residuals if one.planned is not None)
    assert {one.kind for one in found.residuals} >= {"weights", "cache"}


def test_experts_on_the_cpu_and_a_split_are_read_off_the_weights() -> None:
    settings = Settings(devices=2, tensor_split=(3.0, 1.0), cpu_moe_layers=5)
    model = samples.tiny_model(experts=8)
    text = samples.server_log(allocate(model, settings), settings)
    found = compared(text, experts=8)
    assert found.settings.cpu_moe_layers == 5
    assert set(found.inferred) >= {"cpu_moe_layers"}
    weights = [one for one in found.residuals if one.kind == "weights"]
    assert all(one.agrees for one in weights)


@pytest.mark.parametrize(
    ("asked", "inferred"),
    [
        ({"all_logits": True}, {"all_logits"}),
        ({"build": 11300}, {"build"}),
        ({"build": 9400}, {"build"}),
        ({}, set()),
    ],
)
def test_which_build_and_which_logits_are_read_off_the_compute_buffers(
    asked: dict[str, Any], inferred: set[str]
) -> None:
    settings, model = Settings(context=8192, **asked), model_of("heads-80")
    text = samples.server_log(allocate(model, settings), settings, blocks=4)
    found = compare(model, parse_log([text.encode()]).load_of("llama"), Settings())
    assert set(found.inferred) == inferred
    buffers = [one for one in found.residuals if one.kind == "compute" and one.device != "host"]
    assert buffers
    assert all(one.agrees for one in buffers)


def test_context_and_micro_batch_are_read_off_the_buffers() -> None:
    """As of KoboldCpp, whose log has neither."""
    settings, model = Settings(context=4352, ubatch=1024), model_of("heads-80")
    lines = samples.server_log(allocate(model, settings), settings, blocks=4).splitlines()
    left_out = ("n_ctx", "n_ubatch")
    text = "\n".join(one for one in lines if not any(word in one for word in left_out))
    found = compare(model, parse_log([text.encode()]).load_of("llama"), Settings(context=8192))
    assert (found.settings.context, found.settings.ubatch) == (4352, 1024)
    assert set(found.inferred) == {"context", "ubatch"}
    assert not set(found.assumed) & set(found.inferred)
    assert all(one.agrees for one in found.residuals if one.kind in ("cache", "compute"))


def test_what_the_log_tells_is_not_read_off_the_weights() -> None:
    settings = Settings(devices=2)
    text = samples.server_log(allocate(samples.tiny_model(), settings), settings)
    assert compared(text).inferred == ()


def test_a_log_of_another_model_is_refused() -> None:
    settings = Settings()
    allocation = allocate(samples.tiny_model(), settings)
    text = samples.server_log(allocation, settings, blocks=9)
    with pytest.raises(PlanError, match="9 blocks"):
        compared(text)
    with pytest.raises(PlanError, match="gemma3"):
        compared(samples.server_log(allocation, settings).replace("= llama", "= gemma3"))


_OTHERS = {
    "load_tensors: offloaded 25/25 layers to GPU": "24 blocks",
    "print_info: n_layer               = 24": "24 blocks",
    "print_info: n_layer_all           = 24": "24 blocks",
    "llama_model_loader: - kv   8: llama.embedding_length u32              = 640": "640",
    "print_info: model params          = 8.03 B": "8.03 B parameters",
    "print_info: file size   = 235.16 MiB (7.36 BPW) ": "235 MiB",
}


@pytest.mark.parametrize("line", _OTHERS)
def test_each_fact_of_another_model_is_told_in_an_excerpt(line: str) -> None:
    settings = Settings()
    text = samples.server_log(allocate(samples.tiny_model(), settings), settings)
    excerpt = "\n".join(one for one in text.splitlines() if "buffer size" in one)
    assert all(one.agrees for one in compared(excerpt).residuals)
    with pytest.raises(PlanError, match=f"of another model: .*{_OTHERS[line]}.*Open the model"):
        compared(f"{line}\n{excerpt}")


@pytest.mark.parametrize(
    ("text", "blocks", "extra"),
    [
        ("offloaded 8/8 layers", 8, {"llama.nextn_predict_layers": 1}),  # it counts, or not
        ("offloaded 9/9 layers", 8, {"llama.nextn_predict_layers": 1}),
        ("offloaded 9/9 layers", 8, {}),
    ],
)
def test_the_same_model_counted_in_another_way_is_not_refused(
    text: str, blocks: int, extra: dict[str, int]
) -> None:
    model = samples.tiny_model()
    entries = plain_metadata({**{one.key: one.value for one in model.metadata.entries}, **extra})
    model = replace(model, metadata=entries)
    assert model.metadata.integer("llama.block_count") == blocks
    log = parse_log([f"load_tensors: {text}\n{_buffer('3.00')}".encode()])
    assert load_for(model, log).contradicted(_known(model)) is None


def test_tensors_that_ollama_hides_or_moves_are_no_other_model() -> None:
    tiny = samples.tiny_model()
    names = [f"{name}" for name in tiny.tensors.columns.names]
    described = [
        (name, kind.name, list(reversed(shape)))
        for name, kind, shape in zip(
            names, tiny.tensors.columns.types, tiny.tensors.columns.shapes, strict=True
        )
    ]
    more = [("v.blk.0.attn_q.weight", "F16", [512, 4096]), ("mtp.fc.weight", "F16", [512, 512])]
    model = replace(tiny, tensors=tensor_table([*described, *more]))
    shown = tiny.tensors.parameters / 1e6
    lines = f"print_info: model params = {shown:.2f} M\nprint_info: n_layer = 9\n{_buffer('3.00')}"
    assert load_for(model, parse_log([lines.encode()])).contradicted(_known(model)) is None
    more_lines = lines.replace(f"{shown:.2f}", f"{shown + 3:.2f}")
    found = load_for(model, parse_log([more_lines.encode()]))
    assert found.contradicted(_known(model)) == "parameters"


def _buffer(mib: str) -> str:
    return f"load_tensors: CUDA0 model buffer size = {mib} MiB"


def test_a_log_with_another_name_or_much_larger_weights_says_so() -> None:
    settings = Settings()
    text = samples.server_log(allocate(samples.tiny_model(), settings), settings)

    def notes(text: str) -> str:
        log = parse_log([text.encode()])
        return " ".join(
            words.comparison_notes(compare(samples.tiny_model(), log.loads[-1], settings), log)
        )

    assert "named" not in notes(text)
    assert "the log's model is named Other, this one Tiny" in notes(
        text.replace("= Tiny", "= Other")
    )
    assert "twice" not in notes(text)
    assert "twice as large" in notes(_buffer("4321.00"))


_ROW = (
    "common_memory_breakdown_print: |   - CUDA0 (Card 0) "
    "| 12000 = {free} + ( 4 = 3 + 1 + 0) + 700 |"
)


def _with_free(free: int) -> Comparison:
    settings = Settings()
    allocation = allocate(samples.tiny_model(), settings)
    text = samples.server_log(allocation, settings, extra=_ROW.format(free=free))
    return compared(text)


def test_what_a_gpu_holds_beyond_the_plan_is_its_rest() -> None:
    found = _with_free(free=8400)  # of 9000 before
    (rest,) = found.unaccounted
    planned = [one.planned or 0 for one in found.residuals if one.device == "GPU0"]
    assert all(planned)
    assert rest.nbytes == rest.reserve == 600 * MIB - sum(planned)
    assert not rest.others
    assert "are used beyond the plan" in words.unaccounted_sentence(rest)
    assert "--reserve" in words.reserve_sentence(found.unaccounted)


def test_unaccounted_memory_may_be_other_programs() -> None:
    (rest,) = _with_free(free=9500).unaccounted
    assert rest.others
    assert rest.nbytes == pytest.approx(700 * MIB, rel=1e-3)
    assert "other programs" in words.unaccounted_sentence(rest)


def test_a_device_that_reports_the_same_free_memory_tells_no_rest() -> None:
    text = _ROW.replace("700 |", "-4 |")
    settings = Settings()
    allocation = allocate(samples.tiny_model(), settings)
    log = samples.server_log(allocation, settings, extra=text.format(free=9000))
    (rest,) = compared(log).unaccounted
    assert rest.nbytes is None
    assert rest.blind
    assert words.reserve_sentence([rest]) == ""


def test_the_end_of_a_band_and_its_inside() -> None:
    band = Residual("GPU0", "compute", 200, 150, 0, planned_low=100)
    assert (band.difference, band.agrees) == (0, True)
    assert replace(band, measured=260).difference == 60
    assert replace(band, measured=90).difference == -10
    assert Residual("GPU0", "compute", None, 5, 0).difference is None


def test_ollama_ps_is_compared_by_sums() -> None:
    found = compared(samples.OLLAMA_PS, Settings(parallel=1))
    assert [(one.device, one.kind) for one in found.residuals] == [
        ("GPUs", "total"),
        ("all", "total"),
    ]
    assert found.settings.context == 8192


def test_the_record_is_that_of_the_interface() -> None:
    settings = Settings()
    text = samples.server_log(allocate(samples.tiny_model(), settings), settings)
    record = measured_record(compared(text), "server.log")
    assert list(record)[:4] == ["file", "buffers", "residuals", "tokens_per_second"]
    assert set(record["residuals"][0]) == {"what", "planned", "measured", "difference"}
    assert record["buffers"]["GPU0"]["weights"] == record["residuals"][0]["measured"]


@pytest.mark.parametrize("name", ["server_gemma_rpc2_lv4.log", "server_gemma_cpu_lv4.log"])
def test_the_real_model_and_its_real_logs(name: str, shared_data: Path, real_model: Path) -> None:
    log = read_log(shared_data / "llama_cpp_logs" / name)
    with open_model(real_model) as model:
        found = compare(model, log.load_of("gemma3"), Settings())
    for one in found.residuals:
        if one.planned is None:
            continue
        difference = one.difference
        assert difference is not None
        if one.kind == "weights" and one.device != "host":
            # an RPC server does not pad rows to 512 weights, as CUDA does
            assert 0 <= -difference < 32 * 1024
        elif one.kind != "compute":
            assert one.agrees, one
    assert len(found.residuals) >= 4
