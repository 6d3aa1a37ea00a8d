"""The second judge of random nodes: onnxruntime and ONNX's own evaluator.

`oxidnn-onnx --random N --export FOLDER` writes models of one node, whose initializers are its inputs and our outputs.
Each is computed by both; a result is wrong if it differs from those of all that computed it. Prints a line for each
wrong node and the counts; the exit status is 1 where one was wrong, or where nobody had a say.
"""

import collections
import pathlib
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

# Relative to the expected number, and to the largest finite one of the inputs.
TOLERANCES = {
    "float64": 1e-9,
    "float32": 1e-4,
    "float16": 8e-3,
    "bfloat16": 6e-2,
    "float8_e4m3fn": 0,
    "float8_e5m2": 0,
}


# Their formulas have no limit at infinities.
WITHOUT_LIMIT = ("Gelu", "HardSwish", "Mish", "Softsign", "Swish")


def read_otherwise(node, feeds):
    """Whether both judges compute something else than the text says, or lose too much on the way."""
    names = {a.name for a in node.attribute}
    if node.op_type in ("AveragePool", "LpPool", "MaxPool"):
        # Padding of windows with gaps.
        return {"auto_pad", "dilations"} <= names
    if node.op_type.endswith("Normalization") and "x0" in feeds:
        # A variance that is a difference of squares.
        return np.abs(feeds["x0"].astype(np.float64)).max(initial=0) > 100
    return False


def model_of(node, opset_import, feeds, results):
    """The node as a model with typed inputs and outputs."""
    infos = [
        [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in tensors]
        for tensors in (feeds, results)
    ]
    graph = helper.make_graph([node], "node", *infos)
    return helper.make_model(graph, opset_imports=[opset_import], ir_version=8)


def by_runtime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    node = model.graph.node[0]
    feed = next(iter(feeds.values()), None)
    extents = tuple(dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim)
    # It copies what keeps its extents, whatever the scale is.
    if node.op_type == "Resize" and feed.shape == extents:
        raise NotImplementedError
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def by_evaluator(model, feeds):
    node, opset = model.graph.node[0], model.opset_import[0].version
    # It computes these by the rules and defaults of later versions.
    if opset < {"Softmax": 13, "LogSoftmax": 13, "Selu": 6, "Upsample": 10, "Resize": 11}.get(node.op_type, 0):
        raise NotImplementedError
    # Powers of numbers below 0, channels of another axis, images of two axes alone, padding in averages.
    if node.op_type in ("LpNormalization", "LRN", "GlobalMaxPool", "MaxPool") or (node.op_type == "AveragePool" and opset < 7):
        raise NotImplementedError
    # Windows as of a stride of 1.
    if node.op_type == "Conv" and any(a.name == "auto_pad" for a in node.attribute):
        raise NotImplementedError
    if opset < 7 and (node.op_type == "PRelu" or any(a.name == "broadcast" for a in node.attribute)):
        raise NotImplementedError
    outputs = ReferenceEvaluator(model).run(None, feeds)
    # Scalars of the wrong type make it leave the type of tensors.
    for output, info in zip(outputs, model.graph.output):
        if np.asarray(output).dtype != helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type):
            raise NotImplementedError
    return outputs


def differs(op, want, got, feeds):
    """Where our result is off, in words, or None."""
    want = np.asarray(want)
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"expected {want.dtype}{list(want.shape)}, given {got.dtype}{list(got.shape)}"
    if str(got.dtype) not in TOLERANCES:
        return None if np.array_equal(want, got) else f"expected {want.ravel()[:8]}, given {got.ravel()[:8]}"
    # Places and weights have the precision of f32.
    is_rough = op in ("GridSample", "Resize") and got.dtype == np.float64
    tolerance = TOLERANCES["float32" if is_rough else str(got.dtype)]
    wide, ours = want.astype(np.float64), got.astype(np.float64)
    terms = [np.abs(x[np.isfinite(x)]).max(initial=0) for x in feeds.values() if x.dtype == got.dtype and x.size]
    scale = min(max(terms, default=0.0), 1e3)
    allowed = tolerance * (np.abs(wide) + scale) + 1e-7
    good = (wide == ours) | (np.isnan(wide) & np.isnan(ours)) | (np.abs(wide - ours) <= allowed)
    if op in WITHOUT_LIMIT:
        good |= np.isnan(wide) & np.isinf(feeds["x0"].astype(np.float64))
    if good.all():
        return None
    at = int(np.argmin(good.ravel()))
    return f"element {at}: expected {wide.ravel()[at]}, given {ours.ravel()[at]}"


def main(folder, limit):
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    counts, silent = collections.Counter(), collections.Counter()
    paths = sorted(pathlib.Path(folder).glob("*.onnx"), key=lambda path: [int(n) for n in path.stem.split("-")])
    for path in paths[:limit]:
        given = onnx.load(path)
        node, opset = given.graph.node[0], given.opset_import[0].version
        tensors = {t.name: t for t in given.graph.initializer}
        for axes in (a for a in node.attribute if node.op_type == "Resize" and a.name == "axes"):
            # Neither counts axes from the end in all cases.
            rank = len(tensors["x0"].dims)
            axes.ints[:] = [axis % rank for axis in axes.ints]
        feed_protos = [tensors[name] for name in node.input if name]
        result_protos = [tensors[name] for name in node.output if name]
        feeds = {t.name: numpy_helper.to_array(t) for t in feed_protos}
        results = [numpy_helper.to_array(t) for t in result_protos]
        model = model_of(node, given.opset_import[0], feed_protos, result_protos)
        says = {}
        judges = (("onnxruntime", by_runtime), ("evaluator", by_evaluator))
        for name, compute in () if read_otherwise(node, feeds) else judges:
            try:
                wanted = compute(model, feeds)
            except Exception:  # What a judge does not have, it raises in many types.
                continue
            parts = (differs(node.op_type, want, got, feeds) for want, got in zip(wanted, results))
            says[name] = next((part for part in parts if part), None)
        if not says:
            silent[f"{node.op_type}-{opset}"] += 1
        elif all(says.values()):
            counts["wrong"] += 1
            print(f"WRONG  {path.stem}  {node.op_type}-{opset}  {says}")
        else:
            counts["right"] += 1
            counts["one judge alone"] += any(says.values())
    for name, n in silent.items():
        print(f"neither judge has {name}: {n} nodes")
    print(f"onnxruntime and ONNX's evaluator: {dict(counts)}, {sum(silent.values())} without a judge")
    return 1 if counts["wrong"] or not counts["right"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None))
