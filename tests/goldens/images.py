"""Makes images.safetensors: pooling and resampling by PyTorch in float64, gradients by autograd.

Usage: python3 images.py images.safetensors   (needs torch and safetensors; any device, the CPU is used)

Names are those of make.py; indices are stored as float64 too.
"""

import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(20261122)
tensors = {}


def add(head, operands):
    def text(t):
        return "x".join(str(d) for d in t.shape) + (":i64" if t.dtype == torch.int64 else ":f64")

    name = head + "".join(f" {key}={text(value)}" for key, value in operands.items())
    for key, value in operands.items():
        tensors[f"{name}|{key}"] = value.detach().clone().contiguous().to(torch.float64)


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


def max_pool(x_shape, window, pad, stride, dil, ceil):
    function = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[len(window)]
    x = randn(*x_shape)
    _, index = function(x, window, stride, pad, dil, ceil, return_indices=True)
    y, dy, (dx,) = differentiate(lambda x: function(x, window, stride, pad, dil, ceil), x)
    words = f"mode=max window={joined(window)} pad={joined(pad)} stride={joined(stride)} dil={joined(dil)}"
    words += f" ceil={int(ceil)}"
    add(f"pool:forward {words}", {"x": x, "y": y, "index": index})
    add(f"pool:backward {words}", {"x": x, "dy": dy, "dx": dx})
    add(f"pool:backward {words}", {"index": index, "dy": dy, "dx": dx})


max_pool((1, 2, 10, 9), (3, 2), (1, 1), (2, 1), (2, 3), False)
max_pool((1, 2, 10, 9), (3, 2), (1, 0), (3, 2), (1, 1), True)
max_pool((1, 2, 11), (4,), (2,), (3,), (2,), True)
max_pool((1, 2, 5, 6, 7), (2, 3, 2), (1, 1, 0), (2, 2, 3), (1, 1, 2), True)


def average_pool(x_shape, window, pad, stride, include):
    function = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[len(window)]
    y, dy, (dx,) = differentiate(lambda x: function(x, window, stride, pad, True, include), x := randn(*x_shape))
    words = f"mode=average_{'include' if include else 'exclude'}_padding window={joined(window)} pad={joined(pad)}"
    words += f" stride={joined(stride)} ceil=1"
    add(f"pool:forward {words}", {"x": x, "y": y})
    add(f"pool:backward {words}", {"dy": dy, "dx": dx})


for include in (False, True):
    average_pool((1, 2, 10, 8), (3, 3), (1, 1), (2, 3), include)
    average_pool((1, 2, 9), (4,), (1,), (3,), include)
    average_pool((1, 2, 5, 6, 7), (3, 2, 3), (1, 0, 1), (2, 3, 3), include)


def adaptive_pool(x_shape, bins):
    n = len(bins)
    for mode, function in (
        ("average_exclude_padding", {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}[n]),
        ("max", {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}[n]),
    ):
        x = randn(*x_shape)
        y, dy, (dx,) = differentiate(lambda x: function(x, bins), x)
        words = f"mode={mode} bins={joined(bins)}"
        if mode == "max":
            _, index = function(x, bins, return_indices=True)
            add(f"pool:forward {words}", {"x": x, "y": y, "index": index})
            add(f"pool:backward {words}", {"x": x, "dy": dy, "dx": dx})
        else:
            add(f"pool:forward {words}", {"x": x, "y": y})
            add(f"pool:backward {words}", {"dy": dy, "dx": dx})


adaptive_pool((1, 2, 7, 10), (3, 4))
adaptive_pool((1, 2, 4, 5), (6, 5))
adaptive_pool((1, 2, 8), (3,))
adaptive_pool((1, 2, 5, 3, 7), (2, 3, 5))
adaptive_pool((1, 2, 6, 5), (1, 1))

# PyTorch's norms take the sign of the sum along, which is that of ONNX for even exponents and positive images.
for p in (1.5, 2.0, 3.0):
    x = randn(2, 3, 7, 8).abs()
    y, dy, (dx,) = differentiate(lambda x: F.lp_pool2d(x, p, (3, 2), (2, 3)), x)
    words = f"mode=lp p={p:g} window=3x2 stride=2x3"
    add(f"pool:forward {words}", {"x": x, "y": y})
    add(f"pool:backward {words}", {"x": x, "dy": dy, "dx": dx})

x = randn(2, 3, 8, 9)
_, index = F.max_pool2d(x, (2, 3), (2, 3), return_indices=True)
y, dy, (dx,) = differentiate(lambda x: F.max_unpool2d(x, index, (2, 3), (2, 3)), randn(*index.shape))
x = randn(*index.shape)
y = F.max_unpool2d(x, index, (2, 3), (2, 3))
add("unpool:forward window=2x3", {"x": x, "index": index, "y": y})
add("unpool:backward window=2x3", {"dy": dy, "index": index, "dx": dx})


def resample(x_shape, size, mode, words, **options):
    x = randn(*x_shape)
    y, dy, (dx,) = differentiate(lambda x: F.interpolate(x, size=size, mode=mode, **options), x)
    add(f"resample:forward {words}", {"x": x, "y": y})
    add(f"resample:backward {words}", {"dy": dy, "dx": dx})


for size in ((8, 14), (5, 3), (4, 7)):
    shape = (1, 2, 4, 7)
    resample(shape, size, "nearest", "mode=nearest coords=asymmetric round=floor")
    resample(shape, size, "nearest-exact", "mode=nearest coords=half_pixel round=prefer_ceil")
    for mode, name in (("linear", "bilinear"), ("cubic", "bicubic")):
        resample(shape, size, name, f"mode={mode} coords=half_pixel", align_corners=False)
        resample(shape, size, name, f"mode={mode} coords=align_corners", align_corners=True)
    # The cubic filter of PyTorch has another coefficient where it antialiases.
    resample(shape, size, "bilinear", "mode=linear antialias=1 exclude_outside=1", antialias=True, align_corners=False)
    resample(
        shape, size, "bicubic", "mode=cubic a=-0.5 antialias=1 exclude_outside=1", antialias=True, align_corners=False
    )
resample((2, 3, 5), (9,), "linear", "mode=linear", align_corners=False)
resample((1, 2, 4, 5, 3), (6, 3, 7), "trilinear", "mode=linear", align_corners=False)
resample((1, 2, 4, 5, 3), (6, 3, 7), "trilinear", "mode=linear coords=align_corners", align_corners=True)
x = randn(1, 2, 5, 4)
y, dy, (dx,) = differentiate(
    lambda x: F.interpolate(x, scale_factor=(1.75, 0.6), mode="bilinear", align_corners=False), x
)
add("resample:forward mode=linear scale=1.75x0.6", {"x": x, "y": y})
add("resample:backward mode=linear scale=1.75x0.6", {"dy": dy, "dx": dx})

for align in (False, True):
    for shape in ((2, 2, 4, 3), (2, 1, 3, 4, 2)):
        n_axes = len(shape) - 2
        theta = randn(2, n_axes, n_axes + 1)
        grid, dgrid, (dtheta,) = differentiate(lambda t: F.affine_grid(t, shape, align_corners=align), theta)
        words = f"align_corners={int(align)}"
        add(f"affinegrid:forward {words}", {"theta": theta, "grid": grid})
        add(f"affinegrid:backward {words}", {"dgrid": dgrid, "dtheta": dtheta})
        output = (4, 3) if n_axes == 2 else (2, 3, 2)
        grid = 0.8 * randn(2, *output, n_axes)
        for padding in ("zeros", "border", "reflection"):
            for mode, name in (("nearest", "nearest"), ("linear", "bilinear"), ("cubic", "bicubic")):
                if name == "bicubic" and n_axes == 3:
                    continue
                x = randn(*shape)
                y, dy, (dx, dgrid) = differentiate(
                    lambda x, g: F.grid_sample(x, g, mode=name, padding_mode=padding, align_corners=align), x, grid
                )
                words = f"mode={mode} padding={padding} align_corners={int(align)}"
                add(f"gridsample:forward {words}", {"x": x, "grid": grid, "y": y})
                add(f"gridsample:backward_data {words}", {"grid": grid, "dy": dy, "dx": dx})
                add(f"gridsample:backward_grid {words}", {"x": x, "grid": grid, "dy": dy, "dgrid": dgrid})

save_file(tensors, sys.argv[1], metadata={"torch": torch.__version__})
print(len(tensors), "tensors")
