"""Weights rounded to the methods of Hugging Face models, and back by the readers' own formula.

Scales are found from the least and greatest weight of each group, rounded to the type that they are
stored in, and then codes are found with these. NaN and infinite weights count as 0.

Source: `docs/hf_quantization.md`, section 7; bitsandbytes, backends/default/ops.py
(`quantize_4bit`, `quantize_blockwise`, `int8_vectorwise_quant`), nn/modules.py (`Int8Params`) and
functional.py (`create_dynamic_map`); compressed-tensors, quantization/utils/helpers.py
(`calculate_qparams`, `generate_gparam`) and mxfp_utils.py; hqq, core/quantize.py; optimum-quanto,
tensor/optimizers (`MaxOptimizer`, `AbsmaxOptimizer`) and nn/qmodule.py; torchao,
quant_primitives.py (`choose_qparams_affine`); transformers, integrations/bitnet.py
(`BitLinear.weight_quant`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.convert import dequantize, quantize
from explorer.quantization.huggingface.layout import ONE_127TH, Levels, Lines, Shape
from explorer.quantization.huggingface.lines import combine
from explorer.quantization.huggingface.schemes import NESTED_BLOCK, Method, Scheme
from explorer.quantization.jit import f32, i32, inlined, kernel, u8
from explorer.quantization.plain import to_e4m3
from explorer.quantization.registry import read_only
from explorer.quantization.scale_search import clamped, finite, nearest
from explorer.quantization.types import E4M3

Floats = NDArray[np.float32]

_NF4: Final = np.array(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ],
    np.float32,
)
_FP4_MAGNITUDES: Final = np.array([0, 0.0625, 8, 12, 4, 6, 2, 3], np.float32) / np.float32(12)
_FP4: Final = np.concatenate([_FP4_MAGNITUDES, -_FP4_MAGNITUDES])
_TABLES: Final = {Method.NF4: _NF4, Method.FP4: _FP4}
"""Values of codes."""


@cache
def dynamic_map() -> Floats:
    """Return the 256 values of bitsandbytes' 8-bit codes of scales, ascending; float32.

    Signed numbers whose exponent takes as many bits as it needs, the fraction the rest.
    """
    found: list[Floats] = [np.array([0, 1], np.float32)]
    for exponent in range(7):
        edges = _linspace(np.float32(0.1), (1 << exponent) + 1)
        means = (edges[:-1] + edges[1:]) / np.float32(2)
        scaled = np.float32(10.0 ** (exponent - 6)) * means
        found += [scaled, -scaled]
    return np.sort(np.concatenate(found))


def _linspace(start: np.float32, count: int) -> Floats:
    """Return `count` numbers from `start` to 1 as torch.linspace does: from both ends, fused."""
    step = np.float64((np.float32(1) - start) / np.float32(count - 1))
    places = np.arange(count, dtype=np.float64)
    up, down = start + step * places, 1 - step * places[::-1]
    return np.where(places < count // 2, up, down).astype(np.float32)


# Kernels. Weights are lines; weight `c` of a line is in group ``c // run``.


@kernel
def _find_ranges(values: Any, run: Any, low: Any, high: Any) -> None:
    """Fill the last two, float32 [lines, groups], with the least and greatest weights."""
    for line in range(values.shape[0]):
        for group in range(low.shape[1]):
            first = group * run
            least = most = finite(values[line, first])
            for c in range(first, min(first + run, values.shape[1])):
                x = finite(values[line, c])
                least = x if x < least else least
                most = x if x > most else most
            low[line, group], high[line, group] = least, most


@inlined
def _quotient(x: Any, scale: Any) -> Any:
    """Return x / scale, and 0 where the scale is 0 and so are all its weights."""
    return f32(0) if scale == 0 else x / scale


@inlined
def _e2m1_even(x: Any) -> Any:
    """Return the nearest E2M1 code, ties to even, 6 at most."""
    magnitude = abs(x)
    code = u8(magnitude > f32(0.25))
    code += u8(magnitude >= f32(0.75))
    code += u8(magnitude > f32(1.25))
    code += u8(magnitude >= f32(1.75))
    code += u8(magnitude > f32(2.5))
    code += u8(magnitude >= f32(3.5))
    code += u8(magnitude > f32(5))
    if x < 0:
        code += u8(8)
    return u8(code)


@kernel
def _encode_integers(values: Any, run: Any, pair: Any, top: Any, codes: Any) -> None:
    """Fill codes: the nearest whole number of scales, plus the zero point, from 0 to `top`.

    Args:
        pair: Scales and zero points, float32 [lines, groups] each.
    """
    scales, zeros = pair
    for line in range(values.shape[0]):
        for group in range(scales.shape[1]):
            scale, zero = scales[line, group], zeros[line, group]
            for c in range(group * run, min((group + 1) * run, values.shape[1])):
                steps = clamped(_quotient(finite(values[line, c]), scale), f32(-512), f32(512))
                codes[line, c] = u8(i32(clamped(nearest(steps) + zero, f32(0), top)))


@kernel
def _encode_products(values: Any, run: Any, pair: Any, top: Any, codes: Any) -> None:
    """Fill codes: the whole number nearest to ``weight * factor + zero``, from 0 to `top`.

    Args:
        pair: Factors and zeros, float32 [lines, groups] each.
    """
    factors, zeros = pair
    for line in range(values.shape[0]):
        for group in range(factors.shape[1]):
            factor, zero = factors[line, group], zeros[line, group]
            for c in range(group * run, min((group + 1) * run, values.shape[1])):
                steps = finite(values[line, c]) * factor + zero
                codes[line, c] = u8(i32(nearest(clamped(steps, f32(0), top))))


@kernel
def _encode_shifted(values: Any, run: Any, pair: Any, top: Any, codes: Any) -> None:
    """Fill codes: the whole number nearest to ``(weight + shift) / scale``, from 0 to `top`.

    Args:
        pair: Scales and shifts, float32 [lines, groups] each.
    """
    scales, shifts = pair
    for line in range(values.shape[0]):
        for group in range(scales.shape[1]):
            scale, shift = scales[line, group], shifts[line, group]
            for c in range(group * run, min((group + 1) * run, values.shape[1])):
                steps = _quotient(finite(values[line, c]) + shift, scale)
                codes[line, c] = u8(i32(nearest(clamped(steps, f32(0), top))))


@kernel
def _encode_floats(values: Any, run: Any, scales: Any, bits: Any, codes: Any) -> None:
    """Fill codes: the E2M1 (of 4 bits) or E4M3 code nearest to each weight / scale."""
    for line in range(values.shape[0]):
        for group in range(scales.shape[1]):
            scale = scales[line, group]
            for c in range(group * run, min((group + 1) * run, values.shape[1])):
                x = _quotient(finite(values[line, c]), scale)
                codes[line, c] = _e2m1_even(x) if bits == 4 else to_e4m3(x)


@kernel
def _encode_table(values: Any, factors: Any, bounds: Any, order: Any, codes: Any) -> None:
    """Fill codes: the place of the nearest value of a table, the lower of two.

    Args:
        factors: float32 [lines]: what weights of a line are multiplied by; 0 where all are 0.
        bounds: float32 [codes - 1]: the middles between values, ascending.
        order: uint8 [codes]: the code of each value, ascending.
    """
    for line in range(values.shape[0]):
        for c in range(values.shape[1]):
            x = clamped(finite(values[line, c]) * factors[line], f32(-1), f32(1))
            below = 0
            for place in range(bounds.size):
                below += i32(x > bounds[place])
            codes[line, c] = order[below]


def _nearest_codes(values: Floats, factors: Floats, table: Floats) -> NDArray[np.uint8]:
    """Return the codes of the values of a table that are nearest, uint8, shaped as `values`."""
    order = np.argsort(table, kind="stable").astype(np.uint8)
    ascending = table[order]
    bounds = read_only((ascending[:-1] + ascending[1:]) / np.float32(2))
    codes = np.empty(values.shape, np.uint8)
    _encode_table(read_only(values), factors, bounds, read_only(order), codes)
    return codes


# Scales


@dataclass(frozen=True, slots=True)
class Whole:
    """What must be known of all weights before the first are rounded; zeros if nothing need be.

    Attributes:
        largest: float32 [matrices]: the largest magnitude in each.
        mean_scale: Mean of the scales of bitsandbytes' blocks, which double quantization subtracts.
        mean: float32 [matrices]: the mean magnitude in each.
    """

    largest: Floats
    mean_scale: np.float32
    mean: Floats


class RunningWhole:
    """Finds a `Whole`, given all weights in order, in runs of whole units."""

    def __init__(self, scheme: Scheme, shape: Shape) -> None:
        self._scheme = scheme
        self._matrix = prod(shape[-2:])
        self._largest = np.zeros(prod(shape[:-2]), np.float32)
        self._sums = np.zeros(prod(shape[:-2]))  # of magnitudes
        self._sum, self._blocks = 0.0, 0

    def add(self, values: Floats, first: int) -> None:
        """Add weights, float32 [n], from flat index `first` on, all of one matrix."""
        if self._scheme.in_blocks:
            for part in _cut(values, self._scheme.group):
                scales = _magnitudes(part, part.shape[1])
                self._sum += float(scales.sum(dtype=np.float64))
                self._blocks += scales.size
            return
        low, high = _ranges(values.reshape(1, -1), values.size)
        here = first // self._matrix
        if self._scheme.method is Method.BITNET:
            known = np.abs(values, where=np.isfinite(values), out=np.zeros_like(values))
            self._sums[here] += known.sum(dtype=np.float64)
        self._largest[here] = max(self._largest[here], abs(low[0, 0]), abs(high[0, 0]))

    def whole(self) -> Whole:
        """Return what was found."""
        means = (self._sums / max(1, self._matrix)).astype(np.float32)
        return Whole(self._largest, np.float32(self._sum / max(1, self._blocks)), means)


def _cut(values: Floats, size: int) -> Iterator[Floats]:
    """Yield weights as lines of one length, and what is left over as a shorter one."""
    whole = values.size // size * size
    if whole:
        yield values[:whole].reshape(-1, size)
    if whole < values.size:
        yield values[whole:].reshape(1, -1)


def _ranges(values: Floats, run: int) -> tuple[Floats, Floats]:
    groups = -(-values.shape[1] // run)
    low, high = (np.empty((len(values), groups), np.float32) for _ in range(2))
    _find_ranges(read_only(values), run, low, high)
    return low, high


def _magnitudes(values: Floats, run: int) -> Floats:
    """Return the largest magnitude of each group, float32 [lines, groups]."""
    low, high = _ranges(values, run)
    return np.maximum(-low, high)


def _stored_as(type_name: str, scales: Floats) -> Floats:
    """Return scales as they are when they were stored in a type."""
    raw = quantize(np.ascontiguousarray(scales.reshape(-1)), type_name)
    return dequantize(raw, type_name).reshape(scales.shape)


_EXTENT_OF_ZEROS: Final = np.float32(2)  # of a group of zeros: -1 to 1
_EPSILON: Final = np.float32(2**-7)  # compressed-tensors' scale of zeros: torch.finfo(BF16).eps
_HQQ_MOST: Final = np.float32(2e4)
_TORCHAO_LEAST: Final = np.float32(2**-23)  # torch.finfo(float32).eps
_BITNET_LEAST: Final = np.float32(1e-5)
_EXPONENTS: Final = {Method.MXFP4: 2, Method.MXFP8: 8}  # of the largest number of a code


def _integer_scales(scheme: Scheme, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return scales as they are stored, and zero points; float32, shaped as the ranges."""
    top, half = np.float32((1 << scheme.bits) - 1), np.float32(1 << scheme.bits >> 1)
    low, high = np.minimum(low, 0), np.maximum(high, 0)
    extent = high - low if scheme.asymmetric else 2 * np.maximum(-low, high)
    extent = np.where(extent == 0, _EXTENT_OF_ZEROS, extent)
    scales = _stored_as("BF16", (extent / top).astype(np.float32))
    if not scheme.asymmetric:
        return scales, np.full(scales.shape, half)
    zeros = np.where(scales == 0, 0, np.rint(-low / scales))
    return scales, np.clip(zeros, 0, top).astype(np.float32)


class SchemeRounder:
    """Rounds weights of one tensor to a scheme and back. Owns buffers: for one thread.

    Attributes:
        levels: float32 [codes]: the value of each code before scaling.
        groups: None: columns are never reordered.
        layout: How the latest lines make weights.
        encoded: The latest lines: codes, and scales as they are after storing.

    Args:
        scheme: What to round to.
        shape: The tensor's shape, which `Scheme.problem` has nothing against.
        whole: What is known of all its weights; see `RunningWhole`.
    """

    groups: NDArray[np.int32] | None = None
    signed = False
    raw = ""

    def __init__(self, scheme: Scheme, shape: Shape, whole: Whole) -> None:
        self._scheme, self._shape, self._whole = scheme, shape, whole
        self.layout = scheme.layout(shape, *self._line(prod(shape)))
        stored = self.layout.levels is Levels.STORED
        self.levels = _TABLES[scheme.method] if stored else self.layout.level_values()
        self.encoded: list[Lines] = []

    def _line(self, count: int) -> tuple[int, int]:
        """Return the length of lines and of their groups, of so many weights."""
        columns = self._shape[-1] if self._shape else 1
        run = self._scheme.run(self._shape)
        if self._scheme.in_blocks:
            return min(run, count), min(run, count)
        alone = self._scheme.rows == 1 and columns % run == 0
        return (run, run) if alone else (columns, run)

    def round(self, values: Floats, first: int, out: Floats) -> None:
        """Fill `out` with rounded weights, float32 [n]; they are those from index `first` on."""
        self.encoded = []
        done = 0
        for part in _cut(values, self._line(values.size)[0]):
            with np.errstate(all="ignore"):  # weights, and so scales, may be anything
                self.encoded.append(self._encode(part, self._run(part), first + done))
            done += part.size
        if self._scheme.double:
            self._compress()
        done = 0
        for lines in self.encoded:
            line, size = lines.codes.shape[1], lines.codes.size
            self.layout = self._scheme.layout(self._shape, line, self._run(lines.codes))
            combine(self, lines, out[done : done + size].reshape(lines.codes.shape))
            done += size

    def _run(self, lines: NDArray[Any]) -> int:
        line: int = lines.shape[1]
        return min(line, self._line(line)[1])

    def codes(self) -> NDArray[np.uint8]:
        """Return the codes of the weights rounded last, uint8 [n]."""
        return np.concatenate([lines.codes.reshape(-1) for lines in self.encoded])

    def _encode(self, values: Floats, run: int, first: int) -> Lines:
        method = self._scheme.method
        codes = np.empty(values.shape, np.uint8)
        weights = read_only(values)
        low, high = _ranges(values, run)
        most = np.maximum(-low, high)
        none = np.empty((len(values), 0), np.float32)
        if method in _TABLES:
            return Lines(self._table_codes(values, most), most, none)
        if method in {Method.FP8, Method.QFLOAT8, Method.MXFP8}:
            if method is Method.MXFP8:
                scales = _powers(most, _EXPONENTS[method])
            elif method is Method.FP8:
                scales = self._fp8_scales(most, first) / np.float32(448)
            else:
                scales = _stored_as("BF16", (most / np.float32(448)).astype(np.float32))
            _encode_floats(weights, run, read_only(scales), 8, codes)
            return Lines(codes, scales, none)
        if method in {Method.NVFP4, Method.MXFP4}:
            is_nv = method is Method.NVFP4
            scales = self._nvfp4(most, first) if is_nv else _powers(most, _EXPONENTS[method])
            _encode_floats(weights, run, read_only(scales), 4, codes)
            return Lines(codes, scales, none)
        if method is Method.BITNET:
            return self._ternary(values, first)
        return self._integers(values, run, (low, high), codes)

    def _ternary(self, values: Floats, first: int) -> Lines:
        matrix = (first + values.shape[1] * np.arange(len(values))) // prod(self._shape[-2:])
        scales = np.maximum(self._whole.mean[matrix][:, None], _BITNET_LEAST)
        steps = np.rint(np.where(np.isfinite(values), values, 0) * (np.float32(1) / scales))
        codes = (np.clip(steps, -1, 1) + 1).astype(np.uint8)
        return Lines(codes, _stored_as("BF16", scales), np.empty((len(values), 0), np.float32))

    def _integers(
        self, values: Floats, run: int, ranges: tuple[Floats, Floats], codes: NDArray[np.uint8]
    ) -> Lines:
        scheme, (low, high) = self._scheme, ranges
        top = np.float32((1 << scheme.bits) - 1)
        none, weights = np.empty((len(values), 0), np.float32), read_only(values)
        if scheme.method is Method.HQQ:
            factors = np.minimum(top / (high - low), _HQQ_MOST).astype(np.float32)
            zeros = -low * factors
            zeros = np.rint(zeros) if scheme.bits == 4 else zeros
            _encode_products(weights, run, (read_only(factors), read_only(zeros)), top, codes)
            scales = _stored_as("F16", np.float32(1) / factors)
            return Lines(codes, scales, _stored_as("F16", zeros))
        if scheme.method is Method.QINT:
            scales = _stored_as("BF16", ((high - low) / top).astype(np.float32))
            shifts = _stored_as("BF16", -low)
            _encode_shifted(weights, run, (read_only(scales), read_only(shifts)), top, codes)
            return Lines(codes, scales, shifts)
        if scheme.method is Method.INT8_ALONE:
            scales = np.maximum(np.maximum(-low, high) / np.float32(127.5), _TORCHAO_LEAST)
            known = np.where(np.isfinite(values), values, 0)
            steps = np.rint(known * (np.float32(1) / scales))
            np.add(np.clip(steps, -128, 127), 128, out=codes, casting="unsafe")
            return Lines(codes, scales, none)
        if scheme.method is Method.LLM_INT8:
            halves = _stored_as("F16", values)  # bitsandbytes rounds to F16 first
            most = _magnitudes(halves, run)
            factors = (_inverse(most) * np.float32(127)).reshape(most.shape)
            steps = np.rint(np.where(np.isfinite(halves), halves, 0) * factors)
            np.add(steps, 128, out=codes, casting="unsafe")
            return Lines(codes, most, np.full(most.shape, ONE_127TH))
        if scheme.method in {Method.INT8, Method.QINT8}:
            is_quanto = scheme.method is Method.QINT8
            most = np.maximum(-low, high)
            scales = _stored_as("BF16", most / np.float32(127 if is_quanto else 127.5))
            if not is_quanto:
                scales = np.where(scales == 0, _EPSILON, scales).astype(np.float32)
            zeros = np.full(scales.shape, np.float32(128))
            _encode_integers(weights, run, (read_only(scales), read_only(zeros)), top, codes)
            return Lines(codes, scales, none)
        scales, zeros = _integer_scales(scheme, low, high)
        _encode_integers(weights, run, (read_only(scales), read_only(zeros)), top, codes)
        return Lines(codes, scales, zeros)

    def _table_codes(self, values: Floats, most: Floats) -> NDArray[np.uint8]:
        table = _TABLES[self._scheme.method]
        if values.shape[1] == self._scheme.group:
            return _nearest_codes(values, _inverse(most), table)
        # bitsandbytes divides the last block, where it is shorter, and multiplies all others
        scaled = (values / np.maximum(most, np.float32(1e-38))).astype(np.float32)
        return _nearest_codes(scaled, read_only(np.ones(len(values), np.float32)), table)

    # Scales that more than a line shares

    def _fp8_scales(self, most: Floats, first: int) -> Floats:
        """Return the largest magnitude of what each scale is for, float32 [lines, groups]."""
        tall = self._scheme.rows
        if tall == 1:
            return most
        columns = self._shape[-1] if self._shape else 1
        rows = self._shape[-2] if len(self._shape) > 1 else 1
        matrix, row = np.divmod(first // columns + np.arange(len(most)), rows)
        if tall == 0:
            return np.repeat(self._whole.largest[matrix][:, None], most.shape[1], axis=1)
        tiles = matrix * -(-rows // tall) + row // tall
        starts = np.flatnonzero(np.diff(tiles, prepend=-1))
        largest = np.maximum.reduceat(most, starts, axis=0)
        repeated: Floats = np.repeat(largest, np.diff(starts, append=len(most)), axis=0)
        return repeated

    def _nvfp4(self, most: Floats, first: int) -> Floats:
        """Return effective scales: E4M3 divided by a number of the whole matrix."""
        per_matrix = prod(self._shape[-2:])
        matrix = (first + most.shape[1] * 16 * np.arange(len(most))) // per_matrix
        tiny = np.finfo(np.float32).tiny
        wide = np.float32(448 * 6) / np.maximum(self._whole.largest[matrix], tiny)
        wide = np.minimum(wide, np.finfo(np.float32).max)[:, None]
        wanted = (wide * (most / np.float32(6))).astype(np.float32)
        codes = np.empty(wanted.shape, np.uint8)
        _encode_floats(read_only(wanted), 1, read_only(np.ones_like(wanted)), 8, codes)
        scales = np.where(codes == 0, np.float32(0.125), E4M3[codes])
        effective: Floats = (scales / wide).astype(np.float32)
        return effective

    def _compress(self) -> None:
        """Replace scales by what is left of them after they were quantized too."""
        scales = np.concatenate([lines.scales.reshape(-1) for lines in self.encoded])
        offset, table = self._whole.mean_scale, dynamic_map()
        stored: list[Floats] = []
        for part in _cut(scales - offset, NESTED_BLOCK):
            most = _magnitudes(part, part.shape[1])
            codes = _nearest_codes(part, _inverse(most), table)
            stored.append((table[codes] * most + offset).reshape(-1))
        whole = np.concatenate(stored)[:, None]
        done = 0
        for lines in self.encoded:
            count = len(lines.codes)
            lines.scales = np.ascontiguousarray(whole[done : done + count])
            done += count


def _inverse(most: Floats) -> Floats:
    """Return what weights of a group are multiplied by, to be 1 at most; float32 [groups]."""
    with np.errstate(divide="ignore", over="ignore"):
        factors = np.where(most == 0, 0, np.float32(1) / most).astype(np.float32)
    return read_only(factors.reshape(-1))


def _powers(most: Floats, less: int) -> Floats:
    """Return powers of two for largest magnitudes, as compressed-tensors finds them for MX types.

    The exponent of the magnitude in BF16, after half a step of E2M1 is added to it (for MXFP8,
    too), less that of the largest number of a code.
    """
    bits = quantize(np.ascontiguousarray(most.reshape(-1)), "BF16").view("<u2").astype(np.int32)
    exponents = ((bits + (1 << 5)) >> 7) - 127 - less
    powers: Floats = np.exp2(np.maximum(exponents, -127)).astype(np.float32)
    return powers.reshape(most.shape)
