"""Make `ik_rounded.npz`: what ik_llama.cpp's own C code rounds weights to.

  python tests/data/make_ik_golden.py FOLDER

FOLDER is a checkout of ik_llama.cpp; g++ and gcc for x86-64 with AVX2 are needed. The file holds

  weights               float32 [16, 512]: rows of eight kinds
  importance            float32 [512], 0 for some columns
  TYPE.plain, .weighted uint32 [16]: the CRC-32 of the bytes that each row becomes
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np

from explorer.quantization import TENSOR_TYPES
from explorer.quantization.ik_encode import SEARCHES

_FLAGS = [
    *("-O2", "-mavx2", "-mf16c", "-mfma", "-mbmi2", "-ffp-contract=off"),
    *("-fPIC", "-D_GNU_SOURCE", "-DNDEBUG"),
]
_STUB = """
#include "ggml.h"
extern "C" float ggml_table_f32_f16[65536];
float ggml_table_f32_f16[65536];
extern "C" size_t ggml_row_size(enum ggml_type, int64_t) { return 0; }  // one row at a time
"""
HERE = Path(__file__).resolve().parent


def library(checkout: Path, folder: Path) -> ctypes.CDLL:
    """Build the functions that quantize."""
    source = checkout / "ggml" / "src"
    own = folder / "stub.cpp"
    own.write_text(_STUB)
    include = [f"-I{one}" for one in (source, checkout / "ggml" / "include", source / "iqk")]
    objects = []
    for compiler, path in (
        *(("g++", source / "iqk" / "iqk_quantize.cpp"), ("gcc", source / "ggml-quants.c")),
        ("g++", own),
    ):
        objects.append(str(folder / f"{path.stem}.o"))
        command = [compiler, *_FLAGS, *include, "-w", "-c", str(path), "-o", objects[-1]]
        subprocess.run(command, check=True)
    made = str(folder / "ik.so")
    # what else it wants is never called: it is looked up late
    subprocess.run(["g++", "-shared", "-Wl,-z,lazy", "-o", made, *objects], check=True)
    found = ctypes.CDLL(made, 1)  # RTLD_LAZY
    table = (ctypes.c_float * 65536).in_dll(found, "ggml_table_f32_f16")
    table[:] = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32).tolist()
    return found


def rows() -> np.ndarray:
    """Return two rows of each kind."""
    random = np.random.default_rng(33)
    made = (random.standard_normal((16, 512)) * 0.02).astype(np.float32)
    made[2:4] *= np.float32(1e-9)
    made[4:6] *= 10.0 ** random.uniform(-20, 4, (2, 512))
    made[6:8] = random.integers(-3, 4, (2, 512))
    made[8] = 0
    made[9, :256] = 0
    made[10:12] = random.integers(-130, 130, (2, 512)) / 128
    made[12:14] = random.standard_t(2, (2, 512))
    made[14:] = np.abs(made[14:])
    made[14:, ::3] = -0.0
    return made


def main(checkout: Path) -> None:
    weights, random = rows(), np.random.default_rng(34)
    importance = random.random(512).astype(np.float32) ** 4
    importance[:40] = 0
    importance[random.random(512) < 0.3] = 0
    found = {"weights": weights, "importance": importance}
    with tempfile.TemporaryDirectory() as folder:
        fork = library(checkout, Path(folder))
        for name in SEARCHES:
            quantize = getattr(fork, f"quantize_{name.lower()}")
            quantize.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
            quantize.argtypes += [ctypes.c_void_p, ctypes.c_void_p]
            for how, of in (("plain", None), ("weighted", importance.ctypes.data)):
                sums = []
                for row in weights:
                    made = np.zeros(TENSOR_TYPES[name].nbytes_of((1, 512)), np.uint8)
                    quantize(row.ctypes.data, made.ctypes.data, 1, 512, of, None)
                    sums.append(zlib.crc32(made))
                found[f"{name}.{how}"] = np.array(sums, np.uint32)
    np.savez_compressed(HERE / "ik_rounded.npz", **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
