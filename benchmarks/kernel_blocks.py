"""Weights in few bits for `kernels.py`: whole numbers, their scales and zero points."""

BLOCK = 32
TINY = 1e-12


def by_row(weight):
    """int8 [out, in] and scales [out, 1], zero point 0."""
    scales = weight.abs().amax(1, keepdim=True).clamp_min(TINY) / 127
    return (weight / scales).round().char(), scales


def by_block(weight, bits, *, whole_zeros=True):
    """uint8, scales and zero points, each [out, blocks, BLOCK or 1]: w = (q - zero) * scale.

    A zero point between the numbers holds weights exactly that came from a file in 4 bits.
    """
    blocks, top = weight.reshape(len(weight), -1, BLOCK), 2**bits - 1
    low, high = blocks.amin(-1, keepdim=True), blocks.amax(-1, keepdim=True)
    if whole_zeros:
        low, high = low.clamp_max(0), high.clamp_min(0)
    scales = ((high - low) / top).clamp_min(TINY)
    zeros = (-low / scales).round() if whole_zeros else -low / scales
    return (blocks / scales + zeros).round().clamp(0, top).byte(), scales, zeros


def nibbles(numbers):
    """Two numbers a byte along the last axis, the first in the low half."""
    return numbers[..., 0::2] | (numbers[..., 1::2] << 4)
