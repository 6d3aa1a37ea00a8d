"""Makes goldens.safetensors: operator results from PyTorch in float64, gradients by autograd.

Usage: python3 make.py goldens.safetensors   (needs torch and safetensors; any device, the CPU is used)

Every tensor is named "<problem text>|<operand>"; operands that a run writes hold the expected result.
"""

import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(20261121)
tensors = {}


def text(t):
    return "x".join(str(d) for d in t.shape) + ":f64"


def add(head, operands):
    name = head + "".join(f" {key}={text(value)}" for key, value in operands.items())
    for key, value in operands.items():
        tensors[f"{name}|{key}"] = value.detach().clone().contiguous()


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def differentiate(function, *inputs):
    """The result, a random gradient of it, and the gradients of the inputs."""
    inputs = [value.clone().requires_grad_() for value in inputs]
    y = function(*inputs)
    dy = randn(*y.shape)
    return y, dy, torch.autograd.grad(y, inputs, dy)


def joined(values):
    return "x".join(str(v) for v in values)


def conv(x_shape, w_shape, pad, stride, dil, groups):
    function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(x_shape)]
    x, w = randn(*x_shape), randn(*w_shape)
    y, dy, (dx, dw) = differentiate(lambda x, w: function(x, w, None, stride, pad, dil, groups), x, w)
    words = f"pad={joined(pad)} stride={joined(stride)} dil={joined(dil)} groups={groups}"
    add(f"conv:fprop {words}", {"x": x, "w": w, "y": y})
    add(f"conv:dgrad {words}", {"dx": dx, "w": w, "dy": dy})
    add(f"conv:wgrad {words}", {"x": x, "dw": dw, "dy": dy})


conv((2, 4, 7, 6), (6, 4, 3, 3), (1, 1), (1, 1), (1, 1), 1)
conv((2, 4, 9, 8), (6, 2, 3, 2), (2, 0), (2, 3), (2, 1), 2)
conv((1, 3, 5, 5), (3, 1, 5, 5), (2, 2), (1, 1), (1, 1), 3)
conv((2, 3, 11), (5, 3, 4), (2,), (3,), (2,), 1)
conv((1, 2, 4, 5, 3), (3, 2, 2, 3, 2), (1, 0, 1), (1, 2, 1), (1, 1, 2), 1)


def pool(x_shape, window, pad, stride, mode):
    n = len(window)
    x = randn(*x_shape)
    if mode == "max":
        function = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[n]
        y, dy, (dx,) = differentiate(lambda x: function(x, window, stride, pad), x)
    else:
        function = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[n]
        include = mode == "average_include_padding"
        y, dy, (dx,) = differentiate(
            lambda x: function(x, window, stride, pad, ceil_mode=False, count_include_pad=include), x
        )
    words = f"mode={mode} window={joined(window)} pad={joined(pad)} stride={joined(stride)}"
    add(f"pool:forward {words}", {"x": x, "y": y})
    add(f"pool:backward {words}", {**({"x": x} if mode == "max" else {}), "dy": dy, "dx": dx})


for mode in ("max", "average_include_padding", "average_exclude_padding"):
    pool((2, 3, 7, 6), (3, 2), (1, 1), (2, 1), mode)
    pool((2, 2, 9), (4,), (2,), (3,), mode)
    pool((1, 2, 4, 5, 4), (2, 3, 2), (1, 1, 0), (2, 2, 1), mode)

activations = {
    "identity": (lambda x: x * 1.0, None),
    "relu": (F.relu, None),
    "clipped_relu": (lambda x: torch.clamp(x, 0.0, 1.25), 1.25),
    "elu": (lambda x: F.elu(x, 0.75), 0.75),
    "sigmoid": (torch.sigmoid, None),
    "tanh": (torch.tanh, None),
    "swish": (lambda x: x * torch.sigmoid(1.5 * x), 1.5),
}
for mode, (function, coefficient) in activations.items():
    x = 2.0 * randn(3, 7, 5)
    y, dy, (dx,) = differentiate(function, x)
    words = f"mode={mode}" + (f" coef={coefficient}" if coefficient is not None else "")
    add(f"activation:forward {words}", {"x": x, "y": y})
    add(f"activation:backward {words}", {"x": x, "dy": dy, "dx": dx})

for kind, function in (("accurate", F.softmax), ("fast", F.softmax), ("log", F.log_softmax)):
    x = 3.0 * randn(2, 5, 3, 2)
    for mode, call in (
        ("channel", lambda x: function(x, dim=1)),
        ("instance", lambda x: function(x.reshape(x.shape[0], -1), dim=1).reshape(x.shape)),
    ):
        y, dy, (dx,) = differentiate(call, x)
        add(f"softmax:forward kind={kind} mode={mode}", {"x": x, "y": y})
        add(f"softmax:backward kind={kind} mode={mode}", {"y": y, "dy": dy, "dx": dx})

x, b = randn(3, 5, 2, 2), randn(5)
y, dy, (_, db) = differentiate(lambda x, b: x + b.reshape(1, 5, 1, 1), x, b)
add("bias:forward", {"x": x, "bias": b, "y": y})
add("bias:backward", {"dy": dy, "dbias": db})

a, b = randn(3, 7, 5), randn(3, 5, 4)
add("matmul:forward", {"a": a, "b": b, "c": a @ b})
a, b = randn(7, 5), randn(4, 5)
add("matmul:forward trans=nt", {"a": a, "b": b, "c": a @ b.T})

w = randn(4, 6).requires_grad_()
for nesterov in (False, True):
    optimizer = torch.optim.SGD([w], lr=1.0, momentum=0.9, weight_decay=0.01, nesterov=nesterov)
    for _ in range(2):
        before = w.detach().clone()
        state = optimizer.state[w].get("momentum_buffer")
        velocity = torch.zeros_like(before) if state is None else state.clone()
        w.grad = randn(4, 6)
        dw = w.grad.clone()
        optimizer.step()
        words = f"sgd:update momentum=0.9 weight_decay=0.01 nesterov={int(nesterov)}"
        name = words + "".join(f" {key}=4x6:f64" for key in ("dw", "v", "w"))
        if state is None:
            continue
        tensors[f"{name}|dw"], tensors[f"{name}|v.prior"], tensors[f"{name}|w.prior"] = dw, velocity, before
        tensors[f"{name}|v"] = optimizer.state[w]["momentum_buffer"].clone()
        tensors[f"{name}|w"] = w.detach().clone()


def norm(words, x, parameters, function, act=None):
    """Forward and backward of a normalization with scale and bias, and where there is an activation a residual."""
    inputs = [x, randn(*parameters), randn(*parameters)] + ([randn(*x.shape)] if act else [])
    fused = lambda x, scale, bias, z: torch.relu(function(x, scale, bias) + z)
    y, dy, gradients = differentiate(fused if act else function, *inputs)
    words += " act=relu" if act else ""
    names = ["x", "scale", "bias"] + (["z"] if act else [])
    add(f"norm:forward {words}", {**dict(zip(names, inputs)), "y": y})
    gradients = dict(zip(["dx", "dscale", "dbias", "dz"], gradients))
    prior = {"x": x, **({"y": y} if act else {}), "dy": dy, "scale": inputs[1]}
    add(f"norm:backward {words}", {**prior, **gradients})


x = randn(3, 6, 4, 5)
norm("mode=layer axis=2 eps=0.00001", x, (4, 5), lambda x, w, b: F.layer_norm(x, (4, 5), w, b))
norm("mode=layer axis=3 eps=0.001", x, (5,), lambda x, w, b: F.layer_norm(x, (5,), w, b, 1e-3))
norm("mode=rms axis=1 eps=0.01", x, (6, 4, 5), lambda x, w, b: F.rms_norm(x, (6, 4, 5), w, 0.01) + b)
norm("mode=group groups=3 eps=0.00001", x, (6,), lambda x, w, b: F.group_norm(x, 3, w, b))
norm("mode=instance eps=0.00001", x, (6,), lambda x, w, b: F.instance_norm(x, weight=w, bias=b))
norm("mode=batch eps=0.00001", x, (6,), lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True))
norm("mode=batch eps=0.1", x, (6,), lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True, eps=0.1), "relu")

scale, bias, running_mean, running_var = randn(6), randn(6), randn(6), randn(6).square() + 0.5
y = F.batch_norm(x, running_mean, running_var, scale, bias, eps=1e-3)
running = {"running_mean": running_mean, "running_var": running_var}
add("norm:inference mode=batch eps=0.001", {"x": x, "scale": scale, "bias": bias, **running, "y": y})
after = {key: value.clone() for key, value in running.items()}
y = F.batch_norm(x, *after.values(), scale, bias, training=True, momentum=0.2, eps=1e-3)
words = "norm:forward mode=batch eps=0.001 factor=0.2"
name = words + "".join(f" {key}={text(value)}" for key, value in {"x": x, "scale": scale, "bias": bias, **running}.items())
for key, value in {"x": x, "scale": scale, "bias": bias, "y": y, **after}.items():
    tensors[f"{name}|{key}"] = value.detach().clone().contiguous()
for key, value in running.items():
    tensors[f"{name}|{key}.prior"] = value.clone()

x = randn(2, 7, 3, 4)
for n, alpha, beta, k in ((5, 1e-4, 0.75, 2.0), (3, 0.5, 0.6, 1.0)):
    y, dy, (dx,) = differentiate(lambda x: F.local_response_norm(x, n, alpha, beta, k), x)
    words = f"n={n} alpha={alpha} beta={beta} k={k}"
    add(f"lrn:forward {words}", {"x": x, "y": y})
    add(f"lrn:backward {words}", {"x": x, "dy": dy, "dx": dx})
means = randn(2, 7, 3, 4)


def divisive(x, means):
    squares = F.avg_pool2d((x - means).square(), 3, 1, 1)
    return x * (1.5 + 0.5 * squares) ** -0.75


y, dy, (dx, dmeans) = differentiate(divisive, x, means)
words = "region=within_channel n=3 alpha=0.5 beta=0.75 k=1.5"
add(f"lrn:forward {words}", {"x": x, "means": means, "y": y})
add(f"lrn:backward {words}", {"x": x, "means": means, "dy": dy, "dx": dx, "dmeans": dmeans})

save_file(tensors, sys.argv[1], metadata={"torch": torch.__version__})
print(len(tensors), "tensors")
