"""Weights rounded to groups with scales of their own as MLX makes them, and back.

Source: mlx/backend/cpu/quantized.cpp, `quantize` and `fp_quantize`; mlx/ops.cpp, `fp_quantize`.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from explorer.quantization.convert import dequantize, quantize
from explorer.quantization.grouped.layout import GroupedLayout, Mode
from explorer.quantization.huggingface.lines import combine
from explorer.quantization.jit import f32, i32, inlined, kernel, u8
from explorer.quantization.plain import to_e4m3
from explorer.quantization.registry import read_only
from explorer.quantization.scale_search import clamped, finite, nearest
from explorer.quantization.types import E4M3, E8M0

Floats = NDArray[np.float32]


@inlined
def _e2m1(x: Any) -> Any:
    """Return the nearest E2M1 code, of two that are equally near the smaller; never that of -0."""
    magnitude = abs(x)
    code = u8(magnitude > f32(0.25))
    code += u8(magnitude > f32(0.75))
    code += u8(magnitude > f32(1.25))
    code += u8(magnitude > f32(1.75))
    code += u8(magnitude > f32(2.5))
    code += u8(magnitude > f32(3.5))
    code += u8(magnitude > f32(5))
    if x < 0 and code > 0:
        code += u8(8)
    return u8(code)


@inlined
def _largest(values: Any, g: Any) -> Any:
    most = f32(0)
    for i in range(values.shape[1]):
        x = abs(finite(values[g, i]))
        most = x if x > most else most
    return most


@inlined
def _power(most: Any, top: Any) -> Any:
    """Return the E8M0 code of the least power of two that brings `most` to `top` or below."""
    if most == 0:
        return u8(0)
    power = f32(math.ceil(math.log2(most / top)))
    return u8(i32(clamped(power, f32(-127), f32(127))) + i32(127))


@kernel
def _encode_affine(values: Any, bits: Any, scales: Any, biases: Any, codes: Any) -> None:
    """Fill the last three; scales and biases, float32, are not yet of the type that is stored."""
    top = f32((1 << bits) - 1)
    for g in range(values.shape[0]):
        low = high = finite(values[g, 0])
        for i in range(values.shape[1]):
            x = finite(values[g, i])
            low = x if x < low else low
            high = x if x > high else high
        # The end that is farther from zero becomes exact, and zero too.
        edge = low if abs(low) > abs(high) else high
        scale = max((high - low) / top, f32(1e-7))
        scale = scale if abs(low) > abs(high) else -scale
        steps = nearest(edge / scale)
        bias = f32(0)
        if steps != 0:
            scale, bias = edge / steps, edge
        scales[g], biases[g] = scale, bias
        for i in range(values.shape[1]):
            x = (finite(values[g, i]) - bias) / scale
            codes[g, i] = u8(i32(clamped(nearest(x), f32(0), top)))


@inlined
def _write_e2m1(values: Any, g: Any, scale: Any, codes: Any) -> None:
    divisor = scale if scale != 0 else f32(math.inf)
    for i in range(values.shape[1]):
        codes[g, i] = _e2m1(finite(values[g, i]) / divisor)


@kernel
def _encode_nvfp4(values: Any, scales: Any, decoded: Any, codes: Any) -> None:
    """Fill scales, float32, and codes; decoded: float32 [256], what each E4M3 code is worth."""
    for g in range(values.shape[0]):
        scales[g] = decoded[to_e4m3(_largest(values, g) / f32(6))]
        _write_e2m1(values, g, scales[g], codes)


@kernel
def _encode_mxfp4(values: Any, scales: Any, decoded: Any, codes: Any) -> None:
    for g in range(values.shape[0]):
        scales[g] = decoded[_power(_largest(values, g), f32(6))]
        _write_e2m1(values, g, scales[g], codes)


@kernel
def _encode_mxfp8(values: Any, scales: Any, decoded: Any, codes: Any) -> None:
    for g in range(values.shape[0]):
        scales[g] = decoded[_power(_largest(values, g), f32(448))]
        for i in range(values.shape[1]):
            codes[g, i] = to_e4m3(finite(values[g, i]) / scales[g])


_KERNELS: Final[dict[Mode, Any]] = {
    Mode.NVFP4: _encode_nvfp4,
    Mode.MXFP4: _encode_mxfp4,
    Mode.MXFP8: _encode_mxfp8,
}


class GroupRounder:
    """Rounds weights to groups and back, with no global scale; NaN and infinities count as 0.

    Owns buffers: for one thread.

    Attributes:
        levels, groups, signed, raw, layout: As of `huggingface.layout.LineReader`.
        lines: The latest weights: codes, and scales and biases as they are after storing.
    """

    groups: NDArray[np.int32] | None = None
    signed = False
    raw = ""

    def __init__(self, layout: GroupedLayout) -> None:
        self._stored_as = layout
        self.layout = layout.companions((layout.group_size,))
        self.levels = self.layout.level_values()
        self.lines = self.layout.lines(0)

    def round(self, values: Floats, _first: int, out: Floats) -> None:
        """Fill `out` with rounded weights, both float32 [n]: whole groups."""
        groups = read_only(values.reshape(-1, self.layout.line))
        lines = self.lines = self.layout.lines(len(groups))
        scales, mode = lines.scales.reshape(-1), self._stored_as.mode
        if mode is Mode.AFFINE:
            biases = np.empty_like(scales)
            _encode_affine(groups, self.layout.bits, scales, biases, lines.codes)
            scales[:] = _after_storing(scales, self._stored_as.scale_type)
            np.negative(_after_storing(biases, self._stored_as.scale_type), out=biases)
            lines.zeros[:, 0] = biases
        else:
            decoded = E4M3 if mode is Mode.NVFP4 else E8M0
            _KERNELS[mode](groups, scales, decoded, lines.codes)
        combine(self, lines, out.reshape(groups.shape))

    def codes(self) -> NDArray[np.uint8]:
        """Return the codes of the weights rounded last, uint8 [groups, weights of a group]."""
        return self.lines.codes


def _after_storing(numbers: Floats, type_name: str) -> Floats:
    return dequantize(quantize(numbers, type_name), type_name)
