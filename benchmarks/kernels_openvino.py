"""OpenVINO: a compiled model of one product a matrix, one stream."""

import openvino
import torch
from kernel_blocks import BLOCK, by_block, by_row, nibbles
from openvino import opset15 as op

VERSION = openvino.__version__
CORE = openvino.Core()


def product(threads, make_weight, precision="f32", group=0):
    """`group` activations in a row share a scale and are rounded to 8 bits; 0 leaves them."""
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": precision,
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": group,
    }

    def make(weight):
        rows = op.parameter([-1, weight.shape[1]], openvino.Type.f32)
        # packed constants only borrow their numbers: they live as long as the model is compiled
        node, borrowed = make_weight(weight)
        result = op.matmul(rows, node, False, True)
        model = openvino.Model([op.result(result)], [rows])
        request = CORE.compile_model(model, "CPU", settings).create_infer_request()

        def run(x):
            # handed over by itself: as an argument of `infer` it would cost 60 microseconds more
            request.set_input_tensor(openvino.Tensor(x.numpy(), shared_memory=True))
            request.infer(share_outputs=True)
            return torch.from_numpy(request.get_output_tensor(0).data)

        run.borrowed = borrowed
        return run

    return make


def plain(weight):
    return op.constant(weight.numpy()), None


def in_8_bits(weight):
    whole, scales = by_row(weight)
    widened = op.convert(op.constant(whole.numpy()), "f32")
    return op.multiply(widened, op.constant(scales.numpy())), None


def in_blocks(bits):
    def make(weight):
        whole, scales, zeros = by_block(weight, bits)
        numbers, kept = [], []
        for tensor in (whole, zeros.byte()):
            packed = nibbles(tensor.flatten()) if bits == 4 else tensor
            kept.append(packed.numpy())
            kind = openvino.Type.u4 if bits == 4 else openvino.Type.u8
            held = openvino.Tensor(kept[-1], list(tensor.shape), kind)
            numbers.append(op.convert(op.constant(held), "f32"))
        blocks = op.multiply(op.subtract(*numbers), op.constant(scales.numpy()))
        return op.reshape(blocks, op.constant(list(weight.shape)), False), kept

    return make


def whole_row(threads):
    """A scale a row: the largest group there is. Its size is that of the product's own rows."""
    return lambda weight: product(threads, in_8_bits, group=weight.shape[1])(weight)


def kernels(threads):
    return {
        "openvino fp32": product(threads, plain),
        "openvino bf16": product(threads, plain, "bf16"),
        "openvino 8 bits x fp32": product(threads, in_8_bits),
        "openvino int8 rows": whole_row(threads),
        "openvino 8 bits x int8": product(threads, in_8_bits, group=BLOCK),
        "openvino 4 bits x fp32": product(threads, in_blocks(4)),
        "openvino 4 bits x int8": product(threads, in_blocks(4), group=BLOCK),
    }
