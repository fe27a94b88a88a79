"""ONNX Runtime: a session of one product a matrix, all on one pool of threads."""

import numpy as np
import onnxruntime
import torch
from kernel_blocks import BLOCK, by_block, by_row, nibbles
from onnx import TensorProto, helper, numpy_helper

VERSION = onnxruntime.__version__
VENDOR = "com.microsoft"


def session(threads, weight, nodes, constants):
    """rows -> product, of nodes that make `y` of `x`."""
    wide, deep = weight.shape
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", deep])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", wide])],
        [numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(VENDOR, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.use_per_session_threads = threads == 1
    options.intra_op_num_threads = threads
    run = onnxruntime.InferenceSession(model.SerializeToString(), options).run
    return lambda x: torch.from_numpy(run(None, {"x": x.numpy()})[0])


def single(threads):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    return lambda weight: session(threads, weight, nodes, {"w": weight.T.numpy()})


def in_blocks(threads, bits, level):
    """Weights in blocks of 32; `level` 1 computes in single precision, 4 in 8 bits."""

    def make(weight):
        whole, scales, zeros = by_block(weight, bits)
        zeros = zeros.byte().squeeze(-1)
        if bits == 4:
            whole, zeros = nibbles(whole), nibbles(zeros)
        node = helper.make_node(
            "MatMulNBits", ["x", "q", "s", "z"], ["y"], domain=VENDOR, N=weight.shape[0],
            K=weight.shape[1], bits=bits, block_size=BLOCK, accuracy_level=level,
        )  # fmt: skip
        numbers = {"q": whole, "s": scales.squeeze(-1), "z": zeros}
        return session(threads, weight, [node], {k: v.numpy() for k, v in numbers.items()})

    return make


def whole_numbers(threads, rounding, constants):
    """MatMulInteger of `a` (its scale `s`, its zero point `z`), which `rounding` makes of `x`."""
    nodes = [
        *(helper.make_node(*node) for node in rounding),
        helper.make_node("MatMulInteger", ["a", "w", "z"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["floats", "by_row"], ["scaled"]),
        helper.make_node("Mul", ["scaled", "s"], ["y"]),
    ]

    def make(weight):
        whole, scales = by_row(weight)
        own = {"w": whole.T.numpy(), "by_row": scales.flatten().numpy()}
        return session(threads, weight, nodes, own | constants)

    return make


# one scale for all rows, by the least and the largest number of them all
TOGETHER = [("DynamicQuantizeLinear", ["x"], ["a", "s", "z"])]
# a scale for each row, and a zero point that is always 128
ALONE = [
    ("Abs", ["x"], ["sizes"]),
    ("ReduceMax", ["sizes", "axis"], ["peaks"]),
    ("Max", ["peaks", "tiny"], ["most"]),
    ("Div", ["most", "127"], ["s"]),
    ("Div", ["x", "s"], ["within"]),
    ("QuantizeLinear", ["within", "one", "z"], ["a"]),
]
FIXED = {
    "axis": np.array([1]),
    "tiny": np.float32(1e-12),
    "127": np.float32(127),
    "one": np.float32(1),
    "z": np.uint8(128),
}


def kernels(threads):
    if threads > 1:
        onnxruntime.set_global_thread_pool_sizes(threads, 1)
    return {
        "ort fp32": single(threads),
        "ort int8 rows": whole_numbers(threads, ALONE, FIXED),
        "ort int8 one scale": whole_numbers(threads, TOGETHER, {}),
        "ort 8 bits x fp32": in_blocks(threads, 8, 1),
        "ort 8 bits x int8": in_blocks(threads, 8, 4),
        "ort 4 bits x fp32": in_blocks(threads, 4, 1),
        "ort 4 bits x int8": in_blocks(threads, 4, 4),
    }
