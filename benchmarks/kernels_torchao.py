"""torchao's own quantized layers, uncompiled, as the engine would call them."""

import torch
import torchao
from torch import nn
from torchao.prototype.quantization.int4.int4_opaque_tensor import Int4OpaqueTensor
from torchao.quantization import (
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    quantize_,
)

VERSION = torchao.__version__


def layer(config, dtype=torch.float32):
    def make(weight):
        linear = nn.Linear(*weight.shape[::-1], bias=False, dtype=dtype)
        linear.weight = nn.Parameter(weight.to(dtype, copy=True), requires_grad=False)
        holder = nn.Sequential(linear)
        quantize_(holder, config())
        return lambda x: holder(x.to(dtype)).float()

    return make


def opaque_4(weight):
    """Weights in 4 bits, activations in 8: needs kernels that a wheel may come without."""
    packed = Int4OpaqueTensor.from_hp_da8w4(weight, 32)
    return lambda x: nn.functional.linear(x, packed)


def kernels(_threads):
    return {
        "torchao int8 rows": layer(Int8DynamicActivationInt8WeightConfig),
        "torchao int8 w-only": layer(Int8WeightOnlyConfig),
        "torchao int4 w-only": layer(lambda: Int4WeightOnlyConfig(group_size=32), torch.bfloat16),
        "torchao int4 x int8": opaque_4,
    }
