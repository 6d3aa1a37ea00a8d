"""Makes training.safetensors: losses, activations, dropout, optimizers over several steps, reductions, pointwise
operations, gathering and padding by PyTorch in float64, gradients by autograd.

Usage: python3 training.py training.safetensors   (needs torch and safetensors; any device, the CPU is used)

Names are those of make.py; of several cases of one problem, all but the first have "#<number>" behind the problem's text.
Integers are stored as float64 too.
"""

import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(20261123)
tensors = {}
TYPES = {torch.float64: "f64", torch.float32: "f32", torch.int64: "i64", torch.int32: "i32"}


def add(head, operands, prior={}):
    """A problem with its operands in their order, and what operands held before that a run updates."""

    def text(t):
        return "x".join(str(d) for d in t.shape) + ":" + TYPES[t.dtype]

    name = head + "".join(f" {key}={text(value)}" for key, value in operands.items())
    case, n = name, 1
    while any(key.startswith(case + "|") for key in tensors):
        n += 1
        case = f"{name}#{n}"
    for key, value in [*operands.items(), *((f"{key}.prior", value) for key, value in prior.items())]:
        tensors[f"{case}|{key}"] = value.detach().clone().contiguous().to(torch.float64)


def randn(*shape):
    return torch.randn(shape, dtype=torch.float64)


def differentiate(function, *inputs):
    """The result, a random gradient of it, and the gradients of the inputs."""
    inputs = [value.clone().requires_grad_() for value in inputs]
    y = function(*inputs)
    dy = randn(*y.shape)
    return y, dy, torch.autograd.grad(y, inputs, dy)


def joined(values):
    return "x".join(str(v) for v in values)


# Activations that make.py does not have.
activations = {
    "relu lower=-0.5 upper=1.25 slope=0": lambda x: torch.clamp(x, -0.5, 1.25),
    "relu upper=6": F.relu6,
    "relu slope=0.125": lambda x: F.leaky_relu(x, 0.125),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus coef=1.5": lambda x: F.softplus(x, 1.5, threshold=1000.0),
    "hardsigmoid": lambda x: torch.clamp(0.2 * x + 0.5, 0.0, 1.0),
    # By formula: PyTorch's own gradients of these have factors that are rounded to f32.
    "hardsigmoid slope=0.16666666666666666": lambda x: torch.clamp(x / 6.0 + 0.5, 0.0, 1.0),
    "hardswish": lambda x: x * torch.clamp(x / 6.0 + 0.5, 0.0, 1.0),
    "mish": F.mish,
    "selu": F.selu,
    "celu coef=0.75": lambda x: F.celu(x, 0.75),
    "softsign": F.softsign,
    "exp": torch.exp,
    "thresholded_relu coef=0.5": lambda x: F.threshold(x, 0.5, 0.0),
    "log_sigmoid": F.logsigmoid,
}
for mode, function in activations.items():
    x = 3.0 * randn(20)
    y, dy, (dx,) = differentiate(function, x)
    add(f"activation:forward mode={mode}", {"x": x, "y": y})
    add(f"activation:backward mode={mode}", {"x": x, "dy": dy, "dx": dx})


def cross_entropy(reduction, log_probs, weighted, smoothing, ignore, probabilities):
    """Of two images of 3 × 2 positions and 5 classes; `nll_loss` where x holds logarithms of probabilities."""
    x = randn(2, 5, 3, 2)
    x = F.log_softmax(x, 1) if log_probs else x
    weight = randn(5).abs() if weighted else None
    if probabilities:
        target = F.softmax(randn(2, 5, 3, 2), 1)
        options = {}
    else:
        target = torch.randint(0, 5, (2, 3, 2))
        if ignore is not None:
            target[0, 1, 0] = target[1, 2, 1] = ignore
        options = {"ignore_index": -100 if ignore is None else ignore}

    def loss(x):
        if log_probs:
            return F.nll_loss(x, target, weight, reduction=reduction, **options)
        return F.cross_entropy(x, target, weight, reduction=reduction, label_smoothing=smoothing, **options)

    y, dy, (dx,) = differentiate(loss, x)
    words = f"input={'log_probs' if log_probs else 'logits'} reduction={reduction}"
    words += ("" if ignore is None else f" ignore={ignore}") + f" smoothing={smoothing}"
    given = {"x": x, "target": target, **({"weight": weight} if weighted else {})}
    shape = (2, 3, 2) if reduction == "none" else (1,)
    kept = {} if log_probs else {"lse": torch.logsumexp(x, 1)}
    if reduction == "mean" and not probabilities:
        weights = torch.ones(5, dtype=torch.float64) if weight is None else weight
        counted = target if ignore is None else target[target != ignore]
        kept["total"] = weights[counted].sum().reshape(1)
    add(f"crossentropy:forward {words}", {**given, "loss": y.reshape(shape), **kept})
    add(f"crossentropy:backward {words}", {**given, **kept, "dloss": dy.reshape(shape), "dx": dx})


for reduction in ("none", "mean", "sum"):
    cross_entropy(reduction, False, False, 0.0, None, False)
    cross_entropy(reduction, False, True, 0.125, 3, False)
    cross_entropy(reduction, False, True, 0.25, None, True)
    cross_entropy(reduction, True, True, 0.0, -7, False)
cross_entropy("mean", False, True, 0.0, None, False)
cross_entropy("mean", False, False, 0.125, -100, False)
cross_entropy("mean", False, False, 0.0, None, True)


def ctc(reduction, log_probs, blank, zero_infinity, dtype):
    """Of four sequences: one that ends early, one with repeated labels, one without labels, one too short for its own."""
    n_steps, n_classes = 9, 5
    labels = [c for c in range(n_classes) if c != blank]
    target = torch.tensor([[labels[i] for i in row] for row in ((0, 1, 2, 3), (1, 1, 3, 1), (2, 0, 1, 3), (0, 0, 0, 0))])
    target = target.to(dtype)
    x_lengths = torch.tensor([9, 7, 5, 4 if zero_infinity else 8]).to(dtype)
    target_lengths = torch.tensor([4, 3, 0, 4]).to(dtype)
    x = randn(n_steps, 4, n_classes)
    x = F.log_softmax(x, 2) if log_probs else x

    def loss(x):
        logarithms = x if log_probs else F.log_softmax(x, 2)
        return F.ctc_loss(logarithms, target, x_lengths, target_lengths, blank, reduction, zero_infinity)

    y, dy, (dx,) = differentiate(loss, x)
    words = f"input={'log_probs' if log_probs else 'logits'} reduction={reduction} blank={blank}"
    words += f" zero_infinity={int(zero_infinity)}"
    given = {"x": x, "target": target, "x_lengths": x_lengths, "target_lengths": target_lengths}
    add(f"ctc:forward {words}", {**given, "loss": y.reshape(-1)})
    add(f"ctc:backward {words}", {**given, "dloss": dy.reshape(-1), "dx": dx})


ctc("none", True, 0, False, torch.int64)
ctc("none", False, 0, True, torch.int32)
ctc("mean", False, 2, False, torch.int64)
ctc("mean", True, 4, True, torch.int32)
ctc("sum", False, 0, True, torch.int64)


def philox_words(seed, offset, n):
    """n words of Philox4x32-10, of as many counters as that takes from offset on."""
    mask = 0xFFFFFFFF
    words = []
    for i in range((n + 3) // 4):
        c = [(offset + i) & mask, ((offset + i) >> 32) & mask, 0, 0]
        k = [seed & mask, seed >> 32]
        for _ in range(10):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(q >> 32) ^ c[1] ^ k[0], q & mask, (p >> 32) ^ c[3] ^ k[1], p & mask]
            k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
        words += c
    return words[:n]


def signed_words(words):
    return torch.tensor([w - (1 << 32) if w >> 31 else w for w in words], dtype=torch.int32)


def dropout(p, order):
    """PyTorch draws otherwise, so the kept elements are Philox's, and what becomes of them is PyTorch's formula."""
    seed, offset = 0x0123456789ABCDEF, 0xFFFFFFFE
    x = randn(2, 5, 7)
    n = x.numel()
    kept = torch.tensor([word >= int(p * 2**32) for word in philox_words(seed, offset, n)])
    packed = [sum(int(bit) << i for i, bit in enumerate(kept[i : i + 32])) for i in range(0, n, 32)]
    if order == "channels_last":
        kept = kept.reshape(2, 7, 5).permute(0, 2, 1)
    scale = kept.reshape(x.shape).to(torch.float64) / (1.0 - p)
    y, dy, (dx,) = differentiate(lambda x: x * scale, x)
    state, after = (
        signed_words([seed & 0xFFFFFFFF, seed >> 32, at & 0xFFFFFFFF, at >> 32]) for at in (offset, offset + (n + 3) // 4)
    )
    words, bits = f"p={p} order={order}", signed_words(packed)
    add(f"dropout:forward {words}", {"x": x, "state": state, "y": y, "mask": bits, "next": after})
    add(f"dropout:backward {words}", {"dy": dy, "mask": bits, "dx": dx})
    add(f"dropout:backward {words}", {"dy": dy, "state": state, "dx": dx})


for p in (0.0, 0.25, 0.625):
    dropout(p, "row_major")
dropout(0.5, "channels_last")


# PyTorch's own scaling: what it kept goes into the mask.
x = randn(3, 8).requires_grad_()
y = F.dropout(x, 0.3)
dy = randn(3, 8)
(dx,) = torch.autograd.grad(y, x, dy)
bits = signed_words([sum(int(bit) << i for i, bit in enumerate((y != 0.0).flatten()))])
add("dropout:backward p=0.3 order=row_major", {"dy": dy, "mask": bits, "dx": dx})


def steps(make, head, names, n_steps):
    """Steps of an optimizer with a learning rate of 1, which is alpha; `names` are ours and PyTorch's of its state."""
    w = randn(3, 4).requires_grad_()
    optimizer = make([w])
    for i in range(n_steps):
        w.grad = randn(3, 4)
        before = {"w": w.detach().clone()}
        state = optimizer.state[w]
        before |= {name: torch.zeros_like(w) if not state else state[theirs].clone() for name, theirs in names.items()}
        optimizer.step()
        if i == 0 and head.startswith("sgd") and "dampening" in head:
            continue  # PyTorch's first step is without.
        after = {name: optimizer.state[w][theirs] for name, theirs in names.items()} | {"w": w}
        first = {"step": torch.tensor([float(i + 1)], dtype=torch.float32)} if head.startswith("adam") else {}
        add(head, {**first, "dw": w.grad, **after}, before)


sgd = torch.optim.SGD
velocity = {"v": "momentum_buffer"}
steps(lambda w: sgd(w, 1.0), "sgd:update", {}, 1)
steps(lambda w: sgd(w, 1.0, weight_decay=0.05), "sgd:update weight_decay=0.05", {}, 2)
steps(lambda w: sgd(w, 1.0, momentum=0.8), "sgd:update momentum=0.8", velocity, 4)
steps(
    lambda w: sgd(w, 1.0, momentum=0.8, dampening=0.25, weight_decay=0.05),
    "sgd:update momentum=0.8 dampening=0.25 weight_decay=0.05",
    velocity,
    4,
)
steps(
    lambda w: sgd(w, 1.0, momentum=0.8, nesterov=True, weight_decay=0.05),
    "sgd:update momentum=0.8 weight_decay=0.05 nesterov=1",
    velocity,
    4,
)
moments = {"m": "exp_avg", "v": "exp_avg_sq"}
for mode, make in (("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)):
    steps(lambda w: make(w, 1.0, weight_decay=0.0), f"adam:update mode={mode}", moments, 4)
    steps(
        lambda w: make(w, 1.0, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.05),
        f"adam:update mode={mode} beta1=0.8 beta2=0.95 eps=0.0001 weight_decay=0.05",
        moments,
        4,
    )

# Reductions, and their gradients as what our operators compute them by.
x = randn(3, 4, 2, 3)
dims = (1, 3)
reductions = {
    "add": lambda x: x.sum(dims, True),
    "avg": lambda x: x.mean(dims, True),
    "mul": lambda x: x.prod(3, True).prod(1, True),
    "mul_no_zeros": lambda x: x.prod(3, True).prod(1, True),
    "norm1": lambda x: x.abs().sum(dims, True),
    "norm2": lambda x: torch.linalg.vector_norm(x, 2, dims, True),
    "sum_square": lambda x: x.square().sum(dims, True),
    "log_sum": lambda x: x.sum(dims, True).log(),
    "log_sum_exp": lambda x: torch.logsumexp(x, dims, True),
}
for name, function in reductions.items():
    given = x.abs() if name == "log_sum" else x
    add(f"reduce:{name}", {"x": given, "y": function(given)})
rows = x.permute(0, 2, 1, 3).reshape(3, 2, 12)
for name, function, values in (("min", torch.min, rows), ("max", torch.max, rows), ("amax", torch.max, rows.abs())):
    y, indices = function(values, 2)
    add(f"reduce:{name}", {"x": x, "y": y.reshape(3, 1, 2, 1), "indices": indices.reshape(3, 1, 2, 1)})

y, dy, (dx,) = differentiate(reductions["add"], x)
add("pointwise:scale", {"a": dy, "c": dx})
y, dy, (dx,) = differentiate(reductions["avg"], x)
add("pointwise:chain steps=mul:0.08333333333333333", {"a": dy, "c": dx})
y, dy, (dx,) = differentiate(reductions["norm1"], x)
add("pointwise:chain steps=sign,mul:b", {"a": x, "b": dy, "c": dx})
y, dy, (dx,) = differentiate(reductions["norm2"], x)
add("pointwise:chain steps=mul:b,div:t", {"a": x, "b": dy, "t": y, "c": dx})
y, dy, (dx,) = differentiate(reductions["log_sum_exp"], x)
add("pointwise:chain steps=sub:b,exp,mul:t", {"a": x, "b": y, "t": dy, "c": dx})

a, b = randn(12), randn(12)
binary = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "add_square": lambda a, b: a + b.square(),
    "min": torch.minimum,
    "max": torch.maximum,
    "mod": torch.fmod,
    "pow": lambda a, b: torch.pow(a.abs(), b),
    "atan2": torch.atan2,
    "prelu": lambda a, b: torch.where(a > 0, a, a * b),
}
for name, function in binary.items():
    given = a.abs() if name == "pow" else a
    add(f"pointwise:{name}", {"a": given, "b": b, "c": function(given, b)})
unary = ("sqrt", "rsqrt", "reciprocal", "exp", "log", "erf", "sin", "cos", "tan", "abs", "neg", "sign", "floor", "ceil")
for name in (*unary, "round"):
    given = a.abs() if name in ("sqrt", "rsqrt", "log") else 1.5 * a
    add(f"pointwise:{name}", {"a": given, "c": getattr(torch, name)(given)})

# Rows of an embedding, repeated ones too, and along another axis.
for shape, axis in (((6, 3), 0), ((2, 6, 2), 1)):
    indices = torch.tensor([4, 0, 5, 4, 1, 4, 0], dtype=torch.int64)
    y, dy, (dx,) = differentiate(lambda x: x.index_select(axis, indices), x := randn(*shape))
    add(f"gather:forward axis={axis}", {"x": x, "indices": indices, "y": y})
    add(f"gather:backward axis={axis}", {"indices": indices, "dy": dy, "dx": dx})

# PyTorch counts from the last dimension.
paddings = (((1, 2, 3, 4), (2, 1, 0, 2)), ((1, 2, 5), (2, 4)))
for mode, name in (("constant", "constant"), ("edge", "replicate"), ("reflect", "reflect"), ("wrap", "circular")):
    for shape, amounts in (*paddings, ((2, 3, 4), (-1, 2)), ((1, 1, 3, 2, 3), (1, 2, 1, 0, 2, 1))):
        if name == "circular" and min(amounts) < 0:
            continue
        if name != "constant" and any(p >= n for p, n in zip(amounts, [d for d in shape[::-1] for _ in (0, 1)])):
            continue
        value = 1.5 if mode == "constant" else None
        x = randn(*shape)
        y, dy, (dx,) = differentiate(lambda x: F.pad(x, amounts, name, value), x)
        before = [0] * (len(shape) - len(amounts) // 2) + list(amounts[::2])[::-1]
        words = f"mode={mode}"
        add(f"pad:forward {words}{' value=1.5' if value else ''} before={joined(before)}", {"x": x, "y": y})
        add(f"pad:backward {words} before={joined(before)}", {"dy": dy, "dx": dx})


def norm(words, x, parameters, function, with_bias=True):
    """Forward, with what it stores, and backward, of norms that make.py does not have."""
    inputs = [x, randn(*parameters)] + ([randn(*parameters)] if with_bias else [])
    y, dy, gradients = differentiate(function, *inputs)
    add(f"norm:forward {words}", {**dict(zip(("x", "scale", "bias"), inputs)), "y": y})
    add(
        f"norm:backward {words}",
        {"x": x, "dy": dy, "scale": inputs[1], **dict(zip(("dx", "dscale", "dbias"), gradients))},
    )


x = randn(3, 4, 3, 2)


def per_activation(x, w, b):
    var, mean = torch.var_mean(x, 0, correction=0, keepdim=True)
    return (x - mean) * (var + 1e-3).rsqrt() * w + b


norm("mode=rms axis=3 eps=0.001", x, (2,), lambda x, w: F.rms_norm(x, (2,), w, 1e-3), False)
norm("mode=rms axis=1 eps=0.01", x, (4, 3, 2), lambda x, w: F.rms_norm(x, (4, 3, 2), w, 0.01), False)
norm("mode=per_activation eps=0.001", x, (4, 3, 2), per_activation)
norm("mode=group groups=1 eps=0.00001", x, (4,), lambda x, w, b: F.group_norm(x, 1, w, b))
norm("mode=group groups=4 eps=0.01", x, (4,), lambda x, w, b: F.group_norm(x, 4, w, b, 0.01))
norm("mode=instance eps=0.01", x, (4,), lambda x, w, b: F.instance_norm(x, None, None, w, b, eps=0.01))

save_file(tensors, sys.argv[1], metadata={"torch": torch.__version__})
print(len(tensors), "tensors")
