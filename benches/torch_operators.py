"""PyTorch's call for each problem of the operators whose time is memory's; judge_pytorch.py times them.

Each function takes torch, the pass, the keys and the tensors of a problem's text, and gives a function of operands
that queues the work, with the operands' names. An output is an operand only where PyTorch writes into one; elsewhere
its result is new memory, which costs nothing within a CUDA graph.
"""

import math


def numbers(text):
    return [int(part) for part in text.split("x")]


def empty(torch, dtype_of, tensor):
    dims, dtype, strides = tensor
    return torch.empty_strided(dims, strides, dtype=dtype_of(torch, dtype), device="cuda")


def activation(torch, direction, keys, tensors):
    aten, mode = torch.ops.aten, keys["mode"]
    forward = {"relu": aten.relu, "sigmoid": aten.sigmoid, "tanh": aten.tanh, "elu": aten.elu, "swish": aten.silu}
    # Sigmoid and tanh are differentiated by what they gave; the bytes that move are the same.
    backward = {
        "relu": lambda x, dy: aten.threshold_backward(dy, x, 0),
        "sigmoid": lambda x, dy: aten.sigmoid_backward(dy, x),
        "tanh": lambda x, dy: aten.tanh_backward(dy, x),
        "elu": lambda x, dy: aten.elu_backward(dy, 1.0, 1.0, 1.0, False, x),
        "swish": lambda x, dy: aten.silu_backward(dy, x),
    }
    return (forward[mode], ["x"]) if direction == "forward" else (backward[mode], ["x", "dy"])


def pool(torch, direction, keys, tensors):
    from judge_pytorch import dtype_of

    image = tensors["x" if "x" in tensors else "dx"]
    rank = len(image[0]) - 2
    aten, window = torch.ops.aten, numbers(keys["window"])
    pad, stride = numbers(keys.get("pad", "x".join("0" * rank))), numbers(keys.get("stride", keys["window"]))
    ceil, dilation = keys.get("ceil") == "1", numbers(keys.get("dil", "x".join("1" * rank)))
    name = f"pool{rank}d"
    if keys["mode"] == "max":
        with_indices = getattr(aten, f"max_{name}_with_indices")
        if direction == "forward":
            return (lambda x: with_indices(x, window, stride, pad, dilation, ceil)[0]), ["x"]
        x = empty(torch, dtype_of, image).normal_()
        indices = with_indices(x, window, stride, pad, dilation, ceil)[1]
        back = getattr(aten, f"max_{name}_with_indices_backward")
        return (lambda x, dy: back(dy, x, window, stride, pad, dilation, ceil, indices)), ["x", "dy"]
    include = keys["mode"] == "average_include_padding"
    if direction == "forward":
        average = getattr(aten, f"avg_{name}")
        return (lambda x: average(x, window, stride, pad, ceil, include)), ["x"]
    # Only the input's shape and layout are read.
    x, back = empty(torch, dtype_of, image), getattr(aten, f"avg_{name}_backward")
    return (lambda dy: back(dy, x, window, stride, pad, ceil, include, None)), ["dy"]


def softmax(torch, direction, keys, tensors):
    aten, log = torch.ops.aten, keys.get("kind") == "log"
    dims, dtype, _ = tensors["x" if direction == "forward" else "y"]
    if keys.get("mode", "instance") == "instance" and len(dims) > 2:
        raise ValueError("rows of several dimensions")
    if direction == "forward":
        function = aten._log_softmax if log else aten._softmax
        return (lambda x: function(x, 1, False)), ["x"]
    from judge_pytorch import dtype_of

    function = aten._log_softmax_backward_data if log else aten._softmax_backward_data
    return (lambda y, dy: function(dy, y, 1, dtype_of(torch, dtype))), ["y", "dy"]


def crossentropy(torch, direction, keys, tensors):
    aten, functional = torch.ops.aten, torch.nn.functional
    reduction = keys.get("reduction", "none")
    if direction == "forward":
        return (lambda x, target: functional.cross_entropy(x, target, reduction=reduction)), ["x", "target"]
    from judge_pytorch import dtype_of

    # What forward leaves for backward: logarithms of probabilities and the sum of weights.
    x = empty(torch, dtype_of, tensors["x"]).normal_()
    target = empty(torch, dtype_of, tensors["target"]).random_(0, 8)
    logs, code = aten._log_softmax(x, 1, False), {"none": 0, "mean": 1, "sum": 2}[reduction]
    total = aten.nll_loss_forward(logs, target, None, code, -100)[1]

    # The loss has the type of the logits there.
    dloss = torch.ones(() if reduction != "none" else target.shape, dtype=logs.dtype, device="cuda")

    def run(target):
        dlogs = aten.nll_loss_backward(dloss, logs, target, None, code, -100, total)
        return aten._log_softmax_backward_data(dlogs, logs, 1, logs.dtype)

    return run, ["target"]


def dropout(torch, direction, keys, tensors):
    aten, p = torch.ops.aten, float(keys["p"])
    if direction == "forward":
        return (lambda x: aten.native_dropout(x, p, True)), ["x"]
    # What forward leaves for backward, of each set its own: a mask of a byte an element.
    dims, _, strides = tensors["dy"]
    tensors["mask"] = (dims, "bool", strides)
    return (lambda dy, mask: aten.native_dropout_backward(dy, mask, 1.0 / (1.0 - p))), ["dy", "mask"]


def adam(torch, direction, keys, tensors):
    if "master" in tensors or "w0" in tensors:
        raise ValueError("no call for 16-bit parameters with masters, or for a list here")
    step, decay = torch.ones((), device="cuda"), float(keys["weight_decay"])
    function = torch.ops.aten._fused_adamw_ if keys["mode"] == "adamw" else torch.ops.aten._fused_adam_
    numbers_of = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "weight_decay": decay, "eps": 1e-8}
    off = {"amsgrad": False, "maximize": False}
    return (lambda dw, m, v, w: function([w], [dw], [m], [v], [], [step], **numbers_of, **off)), ["dw", "m", "v", "w"]


def sgd(torch, direction, keys, tensors):
    if "master" in tensors or "w0" in tensors:
        raise ValueError("no call for 16-bit parameters with masters, or for a list here")
    momentum = float(keys.get("momentum", "0"))
    rest = {"weight_decay": 0.0, "momentum": momentum, "lr": 1e-3, "dampening": 0.0, "nesterov": False}
    off = {"maximize": False, "is_first_step": False}
    function = torch.ops.aten._fused_sgd_
    return (lambda dw, v, w: function([w], [dw], [v], **rest, **off)), ["dw", "v", "w"]


def pointwise(torch, direction, keys, tensors):
    single = {"add": torch.add, "mul": torch.mul, "div": torch.div, "max": torch.maximum, "exp": torch.exp}
    single |= {"sqrt": torch.sqrt, "erf": torch.erf}
    if direction in single:
        return single[direction], [name for name in ["a", "b"] if name in tensors]
    if direction == "chain" and [step.split(":")[0] for step in keys["steps"].split(",")] == ["add", "relu", "add"]:
        # One call each; a compiler of PyTorch's would make one kernel of them.
        return (lambda a, b, t: torch.relu(a + b) + t), ["a", "b", "t"]
    raise ValueError(f"no call for {direction}")


def transform(torch, direction, keys, tensors):
    return (lambda x, y: y.copy_(x)), ["x", "y"]


def norm(torch, direction, keys, tensors):
    aten, mode, eps = torch.ops.aten, keys["mode"], float(keys["eps"])
    dims = tensors["x"][0]
    # What the problem has not, PyTorch is given as None.
    names = [name for name in ["x", "dy", "scale", "bias", "running_mean", "running_var", "z"] if name in tensors]
    rectified = (lambda y: torch.relu(y)) if keys.get("act") == "relu" else (lambda y: y)
    if mode in ("layer", "rms"):
        shape = dims[int(keys["axis"]) :]
        if direction == "forward":
            if mode == "rms":
                return (lambda x, scale=None: aten._fused_rms_norm(x, shape, scale, eps)[0]), names
            return (lambda x, scale=None, bias=None: aten.native_layer_norm(x, shape, scale, bias, eps)[0]), names
        if mode == "rms":
            back, mask = aten._fused_rms_norm_backward, [True, True]
            names = ["x", "dy", "inv_std", "scale"]
            return (lambda x, dy, inv_std, scale: back(dy, x, shape, inv_std, scale, mask)), names
        back, mask, names = aten.native_layer_norm_backward, [True, True, True], ["x", "dy", "mean", "inv_std", "scale"]
        return (lambda x, dy, mean, inv_std, scale: back(dy, x, shape, mean, inv_std, scale, scale, mask)), names
    if mode == "group":
        n, c, groups = dims[0], dims[1], int(keys["groups"])
        if direction != "forward":
            raise ValueError("no call for the backward pass of groups")
        pixels = 1
        for extent in dims[2:]:
            pixels *= extent
        function = aten.native_group_norm
        return (lambda x, scale=None, bias=None: function(x, scale, bias, n, c, pixels, groups, eps)[0]), names
    if mode != "batch":
        raise ValueError(f"no call for mode {mode}")
    factor = float(keys.get("factor", "0.1"))
    if direction in ("forward", "inference"):
        training = direction == "forward"

        def run(*operands):
            given = dict(zip(names, operands))
            y = torch._batch_norm_impl_index(
                given["x"], given.get("scale"), given.get("bias"), given.get("running_mean"),
                given.get("running_var"), training, factor, eps, True,
            )[0]
            return rectified(y + given["z"] if "z" in given else y)

        return run, names
    from judge_pytorch import dtype_of

    # Which implementation it takes, and what that reserved.
    x = empty(torch, dtype_of, tensors["x"]).normal_()
    scale = empty(torch, dtype_of, tensors["scale"]).normal_()
    _, _, _, reserved, implementation = torch._batch_norm_impl_index(x, scale, scale, None, None, True, 0.1, eps, True)
    if keys.get("act"):
        raise ValueError("no call for a normalization and an activation backward")
    back, mask = aten._batch_norm_impl_index_backward, [True, True, True]
    return (
        lambda x, dy, scale, mean, inv_std: back(
            implementation, x, dy, scale, None, None, mean, inv_std, True, eps, mask, reserved
        )
    ), ["x", "dy", "scale", "mean", "inv_std"]


def lrn(torch, direction, keys, tensors):
    if direction != "forward":
        raise ValueError("no call for the backward pass")
    n, alpha, beta, k = int(keys["n"]), float(keys["alpha"]), float(keys["beta"]), float(keys["k"])
    return (lambda x: torch.nn.functional.local_response_norm(x, n, alpha, beta, k)), ["x"]


def reduce(torch, direction, keys, tensors):
    (dims, _, _), (kept, _, _) = tensors["x"], tensors["y"]
    axes = [i for i, extent in enumerate(dims) if kept[i] == 1]
    if "indices" in tensors:
        if len(axes) != 1:
            raise ValueError("no call for places in several dimensions")
        return (lambda x: getattr(torch, direction)(x, axes[0], keepdim=True)), ["x"]
    norm = torch.linalg.vector_norm
    functions = {
        "add": lambda x: torch.sum(x, axes, keepdim=True),
        "avg": lambda x: torch.mean(x, axes, keepdim=True),
        "min": lambda x: torch.amin(x, axes, keepdim=True),
        "max": lambda x: torch.amax(x, axes, keepdim=True),
        "amax": lambda x: norm(x, math.inf, axes, keepdim=True),
        "norm1": lambda x: norm(x, 1, axes, keepdim=True),
        "norm2": lambda x: norm(x, 2, axes, keepdim=True),
        "log_sum_exp": lambda x: torch.logsumexp(x, axes, keepdim=True),
    }
    if direction == "mul" and len(axes) == 1:
        return (lambda x: torch.prod(x, axes[0], keepdim=True)), ["x"]
    if direction not in functions:
        raise ValueError(f"no call for {direction}")
    return functions[direction], ["x"]


def resample(torch, direction, keys, tensors):
    aten, corners = torch.ops.aten, keys.get("coords") == "align_corners"
    name_x, name_y = ("x", "y") if direction == "forward" else ("dx", "dy")
    small, large = tensors[name_x][0], tensors[name_y][0]
    if len(small) != 4:
        raise ValueError("not an image of two axes")
    if keys["mode"] == "nearest" and keys.get("coords") == "asymmetric" and keys.get("round") == "floor":
        if direction == "forward":
            return (lambda x: aten.upsample_nearest2d(x, large[2:], None, None)), ["x"]
        return (lambda dy: aten.upsample_nearest2d_backward(dy, large[2:], small, None, None)), ["dy"]
    if keys["mode"] == "linear" and keys.get("antialias", "0") == "0" and keys.get("coords") in (
        "half_pixel", "pytorch_half_pixel", "align_corners", None,
    ):
        if direction == "forward":
            return (lambda x: aten.upsample_bilinear2d(x, large[2:], corners, None, None)), ["x"]
        return (lambda dy: aten.upsample_bilinear2d_backward(dy, large[2:], small, corners, None, None)), ["dy"]
    raise ValueError("no call for these coordinates")


def gather(torch, direction, keys, tensors):
    if keys.get("axis", "0") != "0":
        raise ValueError("no call for another axis than 0")
    rows = tensors["x" if direction == "forward" else "dx"][0][0]
    # Numbers of rows, all of them.
    tensors["indices"] = (*tensors["indices"], rows)
    if direction == "forward":
        return (lambda x, indices: torch.ops.aten.embedding(x, indices)), ["x", "indices"]
    backward = torch.ops.aten.embedding_dense_backward
    return (lambda dy, indices: backward(dy, indices, rows, -1, False)), ["dy", "indices"]


def pad(torch, direction, keys, tensors):
    aten, mode = torch.ops.aten, keys["mode"]
    small = tensors["x" if direction == "forward" else "dx"]
    large = tensors["y" if direction == "forward" else "dy"]
    before = numbers(keys["before"])
    after = [large[0][i] - small[0][i] - before[i] for i in range(len(before))]
    if len(before) != 4 or any(before[:2]) or any(after[:2]) or "step" in keys and set(numbers(keys["step"])) != {1}:
        raise ValueError("no call but for two axes of images")
    border = [before[3], after[3], before[2], after[2]]
    if mode == "constant":
        if direction != "forward":
            raise ValueError("no call for a gradient that is a slice")
        return (lambda x: aten.constant_pad_nd(x, border, float(keys.get("value", "0")))), ["x"]
    name = {"reflect": "reflection_pad2d", "edge": "replication_pad2d"}[mode]
    if direction == "forward":
        return (lambda x: getattr(aten, name)(x, border)), ["x"]
    from judge_pytorch import dtype_of

    x, back = empty(torch, dtype_of, small), getattr(aten, f"{name}_backward")
    return (lambda dy: back(dy, x, border)), ["dy"]


OPERATORS = {
    "activation": activation,
    "adam": adam,
    "crossentropy": crossentropy,
    "dropout": dropout,
    "gather": gather,
    "lrn": lrn,
    "norm": norm,
    "pad": pad,
    "pointwise": pointwise,
    "pool": pool,
    "reduce": reduce,
    "resample": resample,
    "sgd": sgd,
    "softmax": softmax,
    "transform": transform,
}
