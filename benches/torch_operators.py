"""PyTorch's call for each problem of the operators whose time is memory's; judge_pytorch.py times them.

Each function takes torch, the pass, the keys and the tensors of a problem's text, and gives a function of operands
that queues the work, with the operands' names. An output is an operand only where PyTorch writes into one; elsewhere
its result is new memory, which costs nothing within a CUDA graph.
"""


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

    rank = len(tensors["x"][0]) - 2
    aten, window = torch.ops.aten, numbers(keys["window"])
    pad, stride = numbers(keys.get("pad", "x".join("0" * rank))), numbers(keys.get("stride", keys["window"]))
    name = f"pool{rank}d"
    if keys["mode"] == "max":
        with_indices = getattr(aten, f"max_{name}_with_indices")
        if direction == "forward":
            return (lambda x: with_indices(x, window, stride, pad)[0]), ["x"]
        x = empty(torch, dtype_of, tensors["x"]).normal_()
        indices = with_indices(x, window, stride, pad)[1]
        back = getattr(aten, f"max_{name}_with_indices_backward")
        return (lambda x, dy: back(dy, x, window, stride, pad, [1] * rank, False, indices)), ["x", "dy"]
    include = keys["mode"] == "average_include_padding"
    if direction == "forward":
        average = getattr(aten, f"avg_{name}")
        return (lambda x: average(x, window, stride, pad, False, include)), ["x"]
    # Only the input's shape and layout are read.
    x, back = empty(torch, dtype_of, tensors["x"]), getattr(aten, f"avg_{name}_backward")
    return (lambda dy: back(dy, x, window, stride, pad, False, include, None)), ["dy"]


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


def transform(torch, direction, keys, tensors):
    return (lambda x, y: y.copy_(x)), ["x", "y"]


OPERATORS = {"activation": activation, "pool": pool, "softmax": softmax, "transform": transform}
