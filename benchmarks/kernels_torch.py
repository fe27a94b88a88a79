"""What torch itself brings: the two paths of the engine, oneDNN, and its products in few bits."""

import torch
from kernel_blocks import BLOCK, by_block, by_row
from torch.nn import functional

from dflash_deploy.speculative.rounded import RowProduct

VERSION = torch.__version__
# oneDNN is told how many rows to expect; a verification's
EXPECTED = 8
PADS = (4, 8, 16, 48)


def mkl(weight, widths=(4, 8, 16)):
    """As `Linear` is on Intel's CPUs with AVX-512."""
    packs = {rows: torch.ops.mkl._mkl_reorder_linear_weight(weight, rows) for rows in widths}  # noqa: SLF001

    def product(x):
        rows = len(x)
        if rows not in packs:
            return functional.linear(x, weight)
        return torch.ops.mkl._mkl_linear(x, packs[rows], weight, None, rows)  # noqa: SLF001

    return product


def padded(weight):
    """The same, but never fewer than 4 rows: one row alone is what MKL sums in another order."""
    layer = mkl(weight, PADS)

    def product(x):
        rows = len(x)
        wide = next(pad for pad in PADS if pad >= rows)
        return layer(x if rows == wide else functional.pad(x, (0, 0, 0, wide - rows)))[:rows]

    return product


def onednn(dtype):
    def make(weight):
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.to(dtype), EXPECTED)  # noqa: SLF001
        return lambda x: torch.ops.mkldnn._linear_pointwise(  # noqa: SLF001
            x.to(dtype), packed, None, "none", [], ""
        ).float()

    return make


def onednn_rows(weight):
    """oneDNN's product of whole numbers: rows are rounded here, each by its own scale."""
    whole, scales = by_row(weight)
    packed = torch.ops.onednn.qlinear_prepack(whole, None)
    scales, zeros = scales.flatten(), torch.zeros(len(weight), dtype=torch.int32)

    def product(x):
        peaks = x.abs().amax(1, keepdim=True).clamp_min_(1e-12).div_(127)
        rounded = (x / peaks).add_(128.5).byte()
        return torch.ops.onednn.qlinear_pointwise(
            rounded, 1.0, 128, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
        ).mul_(peaks)

    return product


def weight_only_4(dtype):
    def make(weight):
        whole, scales, zeros = by_block(weight, 4, whole_zeros=False)
        # this kernel counts from 8, and adds its zero point after the scale
        shifts = (8 - zeros) * scales
        pairs = torch.cat((scales, shifts), -1).transpose(0, 1).contiguous().to(dtype)
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(  # noqa: SLF001
            whole.reshape(weight.shape).int(), 1
        )
        return lambda x: torch.ops.aten._weight_int4pack_mm_for_cpu(  # noqa: SLF001
            x.to(dtype), packed, BLOCK, pairs
        ).float()

    return make


def weight_only_8(dtype):
    def make(weight):
        whole, scales = by_row(weight)
        scales = scales.flatten().to(dtype)
        return lambda x: torch.ops.aten._weight_int8pack_mm(x.to(dtype), whole, scales).float()  # noqa: SLF001

    return make


def kernels(_threads):
    return {
        "mkl fp32": mkl,
        "mkl fp32 padded": padded,
        "fbgemm int8 rows (now)": RowProduct,
        "onednn fp32": onednn(torch.float32),
        "onednn bf16": onednn(torch.bfloat16),
        "onednn int8 rows": onednn_rows,
        "torch int4 w-only fp32": weight_only_4(torch.float32),
        "torch int4 w-only bf16": weight_only_4(torch.bfloat16),
        "torch int8 w-only fp32": weight_only_8(torch.float32),
        "torch int8 w-only bf16": weight_only_8(torch.bfloat16),
    }
