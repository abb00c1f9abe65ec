"""Logs: every format, real files, and texts that are hostile."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import SourceError
from explorer.planner.logs import reading
from explorer.planner.logs.lines import (
    CACHE,
    COMPUTE,
    DRAFTED,
    OUTPUT,
    PROJECTOR,
    PROJECTOR_COMPUTE,
    WEIGHTS,
    LogError,
    Measured,
)
from explorer.planner.logs.reading import parse_log, read_log
from tests.planner import log_samples as samples

MIB = 1 << 20


def one(text: str | bytes, architecture: str = "llama") -> Measured:
    pieces = [text.encode() if isinstance(text, str) else text]
    return parse_log(pieces).load_of(architecture)


def held(measured: Measured) -> dict[tuple[str, str], float]:
    """Return MiB by device and kind."""
    return {(one.device, one.kind): round(one.nbytes / MIB, 2) for one in measured.buffers}


def test_llama_server() -> None:
    found = one(samples.LLAMA_SERVER)
    assert held(found) == {
        ("CPU", WEIGHTS): 1740.62,  # a line for each file
        ("CUDA0", WEIGHTS): 5434.38,
        ("CUDA1", WEIGHTS): 13989.53,
        ("CUDA0", CACHE): 1536.0,  # a comma, as some countries write it
        ("CUDA1", CACHE): 3584.0,
        ("CUDA_Host", OUTPUT): 1.95,
        ("CUDA0", COMPUTE): 672.01,
        ("CUDA1", COMPUTE): 500.0,
    }
    assert dict(found.settings) == {
        **{"context": 4096, "batch": 2048, "ubatch": 512, "gpu_layers": 41},
        **{"flash_attention": False, "type_k": "q8_0", "type_v": "f16", "parallel": 1},
    }
    assert (found.architecture, found.name) == ("llama", "Small")
    assert found.stated == {"blocks": (40, 40)}
    assert [device.free for device in found.devices] == [15035 * MIB, 11035 * MIB]
    assert found.tokens_per_second == 80.02


def test_ollama_s_own_engine() -> None:
    found = one(samples.OLLAMA_ENGINE, "glm4moelite")
    assert found.source == "Ollama's own engine"
    assert held(found)["CUDA0", CACHE] == pytest.approx(5.2 * 1024)
    assert held(found)["CUDA0", COMPUTE] == 98
    weights = next(buffer for buffer in found.buffers if buffer.kind == WEIGHTS)
    assert abs(weights.within - 0.05 * (1 << 30)) < 2, "two digits only"
    assert found.settings["context"] == 16384
    assert found.settings["parallel"] == 2
    assert found.settings["gpu_layers"] == 48
    assert found.devices[0].description == "NVIDIA GeForce RTX 3090"


def test_ollama_that_starts_llama_server() -> None:
    found = one(samples.OLLAMA_SERVER)
    assert held(found) == {
        ("CUDA0", WEIGHTS): 199.34,
        ("CUDA0", CACHE): 18.0,  # with the recurrent state
        ("CUDA0", COMPUTE): 42.0,  # the last one
        ("CUDA0", PROJECTOR_COMPUTE): 101.57,
    }
    wanted = {"ubatch": 1024, "type_k": "q8_0", "tensor_split": (3.0, 1.0), "cpu_moe_layers": 4}
    assert wanted.items() <= dict(found.settings).items()


def test_ollama_ps() -> None:
    log = parse_log([samples.OLLAMA_PS.encode()])
    whole, divided = log.loads
    assert (whole.name, whole.total, whole.on_gpus) == ("llama3.2:latest", 4 * 10**9, 4 * 10**9)
    assert divided.on_gpus == 12 * 10**9 * 52 // 100
    assert divided.settings["context"] == 8192
    assert log.load_of("llama", "llama3.2:latest") is whole


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le"])
def test_lm_studio_and_what_powershell_writes(encoding: str) -> None:
    found = one(samples.LM_STUDIO.encode(encoding))
    assert held(found) == {
        **{("CPU_Mapped", WEIGHTS): 11536.18, ("CPU", OUTPUT): 0.77, ("CPU", CACHE): 36.0}
    }
    assert found.mapped
    assert found.settings["swa_full"] is True
    assert found.settings["gpu_layers"] == 0


@pytest.mark.parametrize(
    "decorate",
    [
        lambda line: f"0.01.135.827 I {line}",
        lambda line: f"\x1b[34m0.01.135.827 \x1b[0m\x1b[32mI {line}\x1b[0m",
        lambda line: f"Sep 11 01:16:15 lena ollama[1884]: {line}\r",
        lambda line: f"llama-1  | {line}",
        lambda line: json.dumps({"type": "log", "time": 4, "level": "info", "msg": line + "\n"}),
    ],
)
def test_any_prefix_means_the_same(decorate: object) -> None:
    assert callable(decorate)
    lines = samples.LLAMA_SERVER.strip().splitlines()
    found = one("\n".join(map(decorate, lines)))
    assert held(found) == held(one(samples.LLAMA_SERVER))
    assert found.settings == one(samples.LLAMA_SERVER).settings
    assert found.tokens_per_second == 80.02


def test_the_last_start_counts_and_of_several_models_the_asked_one() -> None:
    again = samples.LLAMA_SERVER.replace("672.01", "999.00").replace("= llama", "= gemma3")
    log = parse_log([(samples.LLAMA_SERVER + again).encode()])
    assert log.starts == 2
    assert held(log.load_of("gemma3"))["CUDA0", COMPUTE] == 999.0
    assert held(log.load_of("llama"))["CUDA0", COMPUTE] == 672.01


def test_of_several_models_the_one_with_the_same_facts_counts() -> None:
    """An excerpt of two models of one architecture, in which no line names either."""
    again = "load_tensors: offloaded 29/29 layers to GPU\n"
    again += "load_tensors: CUDA0 model buffer size = 500.84 MiB\n"
    text = samples.LLAMA_SERVER
    log = parse_log([(text[text.index("load_tensors:") :] + again).encode()])
    assert [dict(load.stated) for load in log.loads] == [{"blocks": (n, n)} for n in (40, 28)]
    for blocks, mib in ((40, 13989.53), (28, 500.84)):
        found = log.load_of("llama", known={"blocks": (blocks, blocks)})
        assert mib in held(found).values()


def test_a_projector_s_facts_are_not_the_model_s() -> None:
    line = "llama_model_loader: - kv   9:                          llama.block_count u32"
    of_projector = line.replace("llama.block", "llama.vision.block") + "              = 27\n"
    text = samples.LLAMA_SERVER.replace(line, of_projector + line, 1)
    assert one(text).stated["blocks"] == (40, 40)
    assert one(samples.LLAMA_SERVER.replace(line, line + " = 40\n" + of_projector + "x", 1)).stated[
        "blocks"
    ] == (40, 40)


def test_a_second_context_replaces_the_first() -> None:
    context = samples.LM_STUDIO[samples.LM_STUDIO.index(" llama_context: constructing") :]
    found = one(samples.LM_STUDIO + context.replace("36.00", "72.00"))
    assert held(found)["CPU", CACHE] == 72.0


def test_the_table_at_the_end_is_enough() -> None:
    found = one(samples.BREAKDOWN)
    assert held(found)["CUDA0", WEIGHTS] == 3500
    assert held(found)["Host", COMPUTE] == 32
    assert found.devices[0].unaccounted is None, "without buffers it may be the table of --fit"


def test_the_table_at_the_end_tells_what_is_unaccounted_for() -> None:
    found = one(samples.LLAMA_SERVER + samples.BREAKDOWN)
    device = found.devices[0]
    assert (device.free_after, device.unaccounted) == (20012 * MIB, 293 * MIB)
    assert held(found)["CUDA0", WEIGHTS] == 5434.38, "lines of buffers are exacter"


def test_speed_and_depth() -> None:
    text = samples.LLAMA_SERVER + (
        "slot print_timing: id 1 | task 0 | prompt eval time = 65.98 ms / 2 tokens (32.99 ms per "
        "token, 30.31 tokens per second)\n"
        "slot print_timing: id 1 | task 0 |        eval time =     165.10 ms /    40 tokens "
        "(   55.03 ms per token,    18.17 tokens per second)\n"
        "slot      release: id  1 | task 0 | stop processing: n_tokens = 50, truncated = 0\n"
    )
    assert (one(text).tokens_per_second, one(text).depth) == (18.17, 30)
    assert (
        one(samples.LLAMA_SERVER + "[ Prompt: 93.1 t/s | Generation: 20.5 t/s ]").tokens_per_second
        == 20.5
    )
    rates = "prompt eval rate: 100.00 tokens/s\neval rate:            38.12 tokens/s\n"
    assert one(samples.LLAMA_SERVER + rates).tokens_per_second == 38.12


def test_a_log_that_says_nothing_says_what_to_do() -> None:
    with pytest.raises(LogError, match="-lv 4"):
        one("common_params_print_info: verbosity = 3 (adjust with the `-lv N` CLI arg)\n")
    with pytest.raises(LogError, match="ollama ps"):
        one("nothing\n")


def test_real_logs(shared_data: Path) -> None:
    folder = shared_data / "llama_cpp_logs"
    text = read_log(folder / "server_gemma_rpc2_lv4.log").load_of("gemma3")
    lines = read_log(folder / "server_gemma_rpc2_jsonl.log").load_of("gemma3")
    assert text.buffers == lines.buffers
    assert text.settings == lines.settings
    assert held(text)["RPC0[127.0.0.1:50062]", COMPUTE] == 41.57
    assert text.settings["context"] == 8192
    assert text.stated["blocks"] == (18, 18)
    assert text.stated["embedding length"] == (640, 640)
    for fact, number in {"parameters": 268_098_176, "tensor bytes": 246_587_904}.items():
        assert text.stated[fact][0] <= number <= text.stated[fact][1], text.stated[fact]
    alone = read_log(folder / "server_gemma_cpu_lv4.log")
    assert alone.starts == 1, "what --fit tries is not a load"
    assert held(alone.load_of("gemma3"))["CPU", CACHE] == 49.5
    with pytest.raises(LogError, match="verbosity 3"):
        read_log(folder / "server_gemma_rpc2.log").load_of("gemma3")


# Hostile


@given(st.binary(max_size=3000), st.integers(1, 200))
def test_no_bytes_break_it(junk: bytes, piece: int) -> None:
    pieces = [junk[i : i + piece] for i in range(0, len(junk), piece)]
    parse_log(pieces)


_WORDS = st.sampled_from([
    *("llama_context: n_ctx = ", "load_tensors: CUDA0 model buffer size = ", "{", '{"msg":"'),
    *(" KV buffer size = ", "compute buffer size = ", "9" * 400, "-1", "1e99", " MiB", "\x1b["),
    *("common_memory_breakdown_print: |   - X | ", " = ( ", "NAME PROCESSOR\n", " 12 GB 99% GPU "),
    *("msg=load request=", "KvSize:", "GPULayers:", 'msg="kv cache" device=', 'size="', "\n", "\0"),
    *("using device A (B) - ", " MiB free", "loaded meta data", "tokens per second", "K (", ")"),
    *('"type":"fit_memory_breakdown","data":{"rows":[{"name":"a","model":', "]}}", "[[[[[[", "1"),
    *("non-default args", " LLM engine (v1)", "max_num_seqs=", "Model loading took ", "9.9 GiB"),
    *("Available KV cache memory: ", "GPU KV cache size: 1,0 tokens", "(Worker_TP1 pid=2)"),
    *("total_gpu_memory (9GiB) x gpu_memory_utilization (0.0)", "|", "%", " "),
])  # fmt: skip


@given(st.lists(_WORDS, max_size=80).map("".join))
def test_no_mixture_of_its_words_breaks_it(text: str) -> None:
    for measured in parse_log([text.encode()]).loads:
        assert all(abs(buffer.nbytes) < 1 << 63 for buffer in measured.buffers)
        assert len(measured.buffers) <= 256
        assert all(len(buffer.device) <= 80 for buffer in measured.buffers)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=60))
def test_any_division_into_pieces_means_the_same(lengths: list[int]) -> None:
    data, pieces, place = samples.OLLAMA_SERVER.encode(), [], 0
    for length in lengths:
        pieces.append(data[place : place + length])
        place += length
    assert parse_log([*pieces, data[place:]]).loads == parse_log([data]).loads


def _many(line: bytes, total: int) -> Iterator[bytes]:
    block = line * (MIB // len(line) + 1)
    for _ in range(total // len(block)):
        yield block


@pytest.mark.parametrize(
    "line",
    [
        b"x",  # a line without an end
        b"load_tensors: CUDA0 model buffer size = ",
        b"\x1b[0000;" * 20,
        b'{"msg":"',
        b"\0\n",
        b"llama_context: n_ctx = 4096\n",
        b"load_tensors: CUDA0 model buffer size = 99999999999.99 GiB\n",
        b"- kv 1: general.name str = " + b"a " * 4000,
        b"size=" * 1000 + b" % GPU PROCESSOR\n",
        b'msg="kv cache" ' + b"a=" * 4000,
    ],
)
def test_hostile_logs_take_bounded_memory_and_time(line: bytes) -> None:
    begin = time.process_time()
    log = parse_log(_many(line, 2 * MIB))
    seconds = time.process_time() - begin
    assert seconds < 5, "no line takes more than its length"
    assert len(log.loads) <= 16
    tracemalloc.start()
    parse_log(_many(line, 2 * MIB))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * MIB


@pytest.mark.parametrize("holes", [64, 4096, (1 << 20) + 3])
def test_a_hole_before_the_lines_is_no_other_encoding(holes: int) -> None:
    """A crash leaves blocks of NUL bytes, and so does a sparse file."""
    log = parse_log([b"\0" * holes + b"\n" + samples.LLAMA_SERVER.encode()])
    assert log.loads == parse_log([samples.LLAMA_SERVER.encode()]).loads


def test_so_many_lines_are_read_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MOST_LINES", 100)
    log = parse_log([b"llama_context: n_ctx = 4096\n" * 200])
    assert log.cut


def test_only_so_much_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    block = b"\n" * MIB
    monkeypatch.setattr(reading, "LONGEST_LOG", 3 * MIB)
    assert not parse_log([block] * 3).cut
    assert parse_log([block] * 4).cut


def test_a_missing_log_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        read_log(tmp_path / "none.log")
    with pytest.raises(SourceError):
        read_log(tmp_path)


_REAL: dict[str, tuple[dict[str, object], dict[tuple[str, str], float]]] = {
    "draft_named.log": (
        {"context": 9792, "parallel": 1, "ubatch": 512, "gpu_layers": 65},
        {
            ("CUDA0", WEIGHTS): 18423.65,
            ("CPU_Mapped", WEIGHTS): 417.3,
            ("CUDA0", CACHE): 2448.0,
            ("CUDA0", COMPUTE): 194.01,
            ("CUDA0", DRAFTED[WEIGHTS]): 500.84,
            ("CUDA0", DRAFTED[CACHE]): 114.77,
            ("CUDA0", DRAFTED[COMPUTE]): 25.91,
        },
    ),
    "qwen38_27b_mtp_3090.log": (
        {"context": 8192, "parallel": 4, "kv_unified": True, "mtp": 2, "gpu_layers": 66},
        {
            ("CPU_Mapped", WEIGHTS): 682.03,
            ("Vulkan0", WEIGHTS): 15009.2,
            ("Vulkan_Host", OUTPUT): 3.79,
            ("Vulkan0", CACHE): 2307.5,
            ("Vulkan0", COMPUTE): 568.53,
            ("Vulkan_Host", COMPUTE): 112.07,
            ("Vulkan_Host", DRAFTED[OUTPUT]): 3.79,
            ("Vulkan0", DRAFTED[CACHE]): 32.0,
            ("Vulkan0", DRAFTED[COMPUTE]): 520.06,
            ("Vulkan_Host", DRAFTED[COMPUTE]): 112.07,
        },
    ),
    "qwen35_9b_1070ti_np4.log": (
        {
            **{"context": 8192, "parallel": 4, "batch": 2048, "ubatch": 2048},
            **{"kv_unified": True, "gpu_layers": 31},
        },
        {
            ("CPU_Mapped", WEIGHTS): 824.31,
            ("Vulkan0", WEIGHTS): 4854.94,
            ("Vulkan_Host", OUTPUT): 3.79,
            ("Vulkan0", CACHE): 440.25,
            ("CPU", CACHE): 16.75,
            ("Vulkan0", COMPUTE): 447.38,
            ("Vulkan_Host", COMPUTE): 128.44,
        },
    ),
    "gptoss20b_m5_mtl0.log": (
        {
            **{"context": 131072, "parallel": 1, "batch": 2048, "ubatch": 512, "gpu_layers": 25},
            **{"flash_attention": True, "kv_unified": False, "type_k": "f16", "type_v": "f16"},
        },
        {
            ("CPU_Mapped", WEIGHTS): 586.82,
            ("MTL0_Mapped", WEIGHTS): 11536.18,
            ("MTL0", CACHE): 3090.0,  # 3072 and those of windows
            ("MTL0", COMPUTE): 420.08,
            ("CPU", COMPUTE): 268.77,
        },
    ),
    "koboldcpp_llama32_3b.log": (
        {"gpu_layers": 29},
        {
            ("CUDA0", WEIGHTS): 1918.35,
            ("CUDA_Host", WEIGHTS): 308.23,
            ("CUDA_Host", OUTPUT): 1.47,
            ("CUDA0", CACHE): 476.0,
            ("CUDA0", COMPUTE): 278.79,
            ("CUDA_Host", COMPUTE): 16.3,
        },
    ),
    "ollama_engine_gemma3_2026-02.log": (
        {},
        {
            ("CUDA0", WEIGHTS): 7168.0,
            ("CPU", WEIGHTS): 285.7,
            ("CUDA0", CACHE): 912.2,
            ("CUDA0", COMPUTE): 2969.6,
            ("CPU", COMPUTE): 8.0,
        },
    ),
    "mmproj_only.log": (
        {"context": 8192, "parallel": 1, "batch": 2048, "ubatch": 512, "gpu_layers": 37},
        {
            ("CPU_Mapped", WEIGHTS): 304.28,
            ("CUDA0", WEIGHTS): 2375.91,
            ("CUDA0", CACHE): 1152.0,
            ("CUDA0", COMPUTE): 85.01,
            ("CUDA_Host", COMPUTE): 28.02,
            ("CUDA0", PROJECTOR): 887.99,
            ("CUDA0", PROJECTOR_COMPUTE): 248.1,
            ("CPU", PROJECTOR_COMPUTE): 24.93,
        },
    ),
}
"""Settings, and MiB by device and kind, of logs that people published."""


def test_the_model_is_named_by_the_summary_too(shared_data: Path) -> None:
    (load,) = read_log(shared_data / "real_logs" / "draft_named.log").loads
    assert (load.architecture, load.name) == ("qwen3", "qwen3-32b"), "not the draft's"


@pytest.mark.parametrize("name", _REAL)
def test_every_context_of_a_published_log_is_read(name: str, shared_data: Path) -> None:
    log = read_log(shared_data / "real_logs" / name)
    assert len(log.loads) == 1
    settings, buffers = _REAL[name]
    assert dict(log.loads[0].settings) == settings
    assert held(log.loads[0]) == buffers


def test_the_build_and_what_it_drafts_are_read() -> None:
    log = """build_info: b8946-1a2b3c4d5
# argv: C:\\llama\\llama-server.exe --model m.gguf --spec-draft-n-max 4 --ubatch-size 1024
llama_context: n_ctx                 = 4096
llama_context: n_rs_seq              = 0
llama_kv_cache: size =  512.00 MiB (  4096 cells,  16 layers,  4/1 seqs), K (f16):  256.00 MiB
llama_kv_cache:      CUDA0 KV buffer size =   512.00 MiB
srv    load_model: creating MTP draft context against the target model 'm.gguf'
llama_context: n_ctx                 = 256
llama_kv_cache:      CUDA0 KV buffer size =    32.00 MiB
"""
    found = one(log)
    assert dict(found.settings) == {
        **{"build": 8946, "context": 4096, "ubatch": 1024, "parallel": 4, "kv_unified": True},
        **{"mtp": 4, "type_k": "f16"},
    }
    assert held(found) == {("CUDA0", CACHE): 512.0, ("CUDA0", DRAFTED[CACHE]): 32.0}
