#!/usr/bin/env python3
"""A second judge of the peer: the same problems timed through PyTorch.

Reads problems, either a table that `oxidnn compare --out` wrote or lines of `oxidnn compare <suite> --problems`,
and times each through PyTorch's own operators: channels_last where the problem is, cudnn.benchmark on, replays of a
CUDA graph of several calls over operands in rotation past the second-level cache, random normal data.

    judge_pytorch.py resnet50-fprop-bf16-nhwc.csv --out torch.csv     # columns problem, torch_us, note
    judge_pytorch.py resnet50-fprop-bf16-nhwc.csv --merge             # fills the table's own column torch_us
    oxidnn compare resnet50 --passes fprop --judge torch.csv          # compare puts the times beside its own

With --serve it is the other side of `oxidnn compare memory_…`: it answers requests on its standard input, so that both
sides are timed in turns. f32 is true FP32 (no TF32) unless --tf32 is given.
"""

import argparse
import csv
import math
import statistics
import sys
import time

from torch_operators import OPERATORS

ROTATION_BYTES = 180 << 20
GRAPH_US = 800.0


def parse(text):
    """The fields of a problem's text and its operands: (head, keys, {name: (dims, dtype, strides)})."""
    words = text.split()
    keys, tensors = {}, {}
    for word in words[1:]:
        key, value = word.split("=", 1)
        # A chain's steps have colons too, but begin with a word.
        if ":" in value and value[0].isdigit():
            parts = value.split(":")
            dims = [int(d) for d in parts[0].split("x")]
            tensors[key] = (dims, parts[1], strides_of(dims, parts[2] if len(parts) > 2 else "nchw"))
        else:
            keys[key] = value
    return words[0], keys, tensors


def strides_of(dims, layout):
    """Strides in elements of nchw, nhwc or s<strides>."""
    if layout.startswith("s"):
        return [int(s) for s in layout[1:].split("x")]
    order = list(range(len(dims)))
    if layout == "nhwc":
        order = [0] + order[2:] + [1]
    strides, step = [0] * len(dims), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= dims[axis]
    return strides


def numbers(text):
    return [int(part) for part in text.split("x")]


def operation(torch, text):
    """A function of the operands' tensors that queues the problem, and the operands' shapes by name, inputs only."""
    head, keys, tensors = parse(text)
    operator, direction = head.split(":")
    if operator == "matmul":
        a_t, b_t = (letter == "t" for letter in keys.get("trans", "nn"))
        names = ["a", "b"]

        def run(a, b):
            return torch.matmul(a.transpose(-1, -2) if a_t else a, b.transpose(-1, -2) if b_t else b)

        return run, {name: tensors[name] for name in names}
    if operator in OPERATORS:
        run, names = OPERATORS[operator](torch, direction, keys, tensors)
        return run, {name: tensors[name] for name in names}
    if operator != "conv" or keys.get("mode", "cross_correlation") != "cross_correlation" or "pad_end" in keys:
        raise ValueError("not a problem that PyTorch has a call for")
    output = {"fprop": "y", "dgrad": "dx", "wgrad": "dw"}[direction]
    names = {"fprop": ["x", "w"], "dgrad": ["dy", "w"], "wgrad": ["x", "dy"]}[direction]
    rank = len(tensors[names[0]][0]) - 2

    def axes(key, least):
        values = numbers(keys.get(key, str(least)))
        return values * rank if len(values) == 1 else values

    pad, stride, dil, groups = axes("pad", 0), axes("stride", 1), axes("dil", 1), int(keys.get("groups", "1"))
    if direction == "fprop":

        def run(x, w):
            return torch.ops.aten.convolution(x, w, None, stride, pad, dil, False, [0] * rank, groups)

        return run, {name: tensors[name] for name in names}
    dims, dtype, strides = tensors[output]
    # Only shape, type and layout of the missing operand are read.
    missing = torch.empty_strided(dims, strides, dtype=dtype_of(torch, dtype), device="cuda")
    mask = [direction == "dgrad", direction == "wgrad", False]

    def run(*given):
        if direction == "dgrad":
            dy, w = given
            x = missing
        else:
            x, dy = given
            w = missing
        result = torch.ops.aten.convolution_backward(
            dy, x, w, None, stride, pad, dil, False, [0] * rank, groups, mask
        )
        return result[0] if direction == "dgrad" else result[1]

    return run, {name: tensors[name] for name in names}


def dtype_of(torch, name):
    return {
        "bf16": torch.bfloat16,
        "f16": torch.float16,
        "f32": torch.float32,
        "f64": torch.float64,
        "i64": torch.int64,
        "i32": torch.int32,
        "i8": torch.int8,
        "u8": torch.uint8,
        "bool": torch.bool,
    }[name]


def random_operand(torch, name, dims, dtype, strides, high=8):
    tensor = torch.empty_strided(dims, strides, dtype=dtype_of(torch, dtype), device="cuda")
    if not tensor.is_floating_point():
        return tensor.random_(0, 2 if dtype == "bool" else high)
    tensor.normal_()
    # As compare fills them: what a root is taken of is positive.
    return tensor.abs_().add_(0.1) if "var" in name or "inv" in name else tensor


class Recorded:
    """A problem as a CUDA graph of several calls over operands in rotation."""

    def __init__(self, torch, text):
        run, operands = operation(torch, text)
        # Outputs count and rotate as well: written to one place again and again, they would stay in the cache.
        all_operands = parse(text)[2].values()
        one_set = sum(math.prod(dims) * dtype_of(torch, dtype).itemsize for dims, dtype, _ in all_operands)
        n_sets = max(2, min(256, -(-ROTATION_BYTES // one_set)))
        sets = [
            [random_operand(torch, name, *operand) for name, operand in operands.items()] for _ in range(n_sets)
        ]
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.start, self.end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(self.stream):
            # The first call searches among the peer's algorithms (cudnn.benchmark).
            for _ in range(3):
                run(*sets[0])
            once = self.timed_us(lambda: run(*sets[-1]))
            self.calls = max(10, n_sets, min(256, math.ceil(GRAPH_US / max(once, 1.0))))
            self.stream.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.stream):
                # A result lives until its set's turn comes again, so that its memory is not the next call's.
                results = [None] * n_sets
                for i in range(self.calls):
                    results[i % n_sets] = run(*sets[i % n_sets])
        self.sets, self.results = sets, results

    def timed_us(self, work):
        self.start.record(self.stream)
        work()
        self.end.record(self.stream)
        self.end.synchronize()
        return self.start.elapsed_time(self.end) * 1e3

    def turn_us(self, torch):
        """Microseconds of a call, of one replay."""
        with torch.cuda.stream(self.stream):
            return self.timed_us(self.graph.replay) / self.calls


def time_us(torch, text, rounds):
    """Median microseconds of a call."""
    recorded = Recorded(torch, text)
    return statistics.median([recorded.turn_us(torch) for _ in range(rounds + 1)][1:])


def serve(torch):
    """Answers `problem <text>` and `turn`, a line each, until the input ends."""
    print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}", flush=True)
    recorded = None
    for line in sys.stdin:
        request, _, text = line.strip().partition(" ")
        try:
            if request == "problem":
                recorded = None
                torch.cuda.empty_cache()
                recorded = Recorded(torch, text)
                answer = "ready"
            else:
                answer = f"{recorded.turn_us(torch):.3f}"
        except Exception as error:  # one problem's failure loses no other
            answer = "refused: " + " ".join(str(error).split())[:200]
        print(answer, flush=True)


def read(path):
    """Lines of comment, the columns, and the rows as dictionaries."""
    with open(path, newline="") as file:
        lines = file.read().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    rest = [line for line in lines if line and not line.startswith("#")]
    if rest and "problem" in rest[0].split(","):
        table = csv.DictReader(rest)
        return comments, list(table.fieldnames), list(table)
    return comments, ["problem"], [{"problem": line} for line in rest]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help="tables of oxidnn compare, or lists of problems")
    parser.add_argument("--out", help="where the times go")
    parser.add_argument("--merge", action="store_true", help="fill the tables' own column torch_us")
    parser.add_argument("--filter", default="", help="only problems whose text contains this")
    parser.add_argument("--limit", type=int, help="at most so many problems of each table")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--time-budget", type=float, help="start no problem after so many seconds")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--serve", action="store_true", help="answer requests on the standard input")
    options = parser.parse_args()

    import torch

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = options.tf32
    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    if options.serve:
        serve(torch)
        return 0
    head = f"# torch: {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}"
    print(head)
    begin = time.monotonic()
    out = open(options.out, "w", newline="") if options.out else None
    if out:
        out.write(f"{head}\nproblem,torch_us,note\n")
    known = {}
    for path in options.tables:
        comments, columns, rows = read(path)
        done = 0
        for row in rows:
            text = row["problem"]
            if options.filter not in text or (options.limit is not None and done >= options.limit):
                continue
            if options.time_budget is not None and time.monotonic() - begin > options.time_budget:
                print("the time is up")
                break
            done += 1
            note = ""
            if text not in known:
                try:
                    known[text] = f"{time_us(torch, text, options.rounds):.2f}"
                except Exception as error:  # one problem's failure loses no other
                    known[text], note = "", " ".join(str(error).split())[:200]
                torch.cuda.empty_cache()
            us = known[text]
            ours, theirs = row.get("ours_us"), row.get("peer_us")
            print(f"{us:>10} us  ours {ours}  peer {theirs}  {text} {note}", flush=True)
            if out:
                csv.writer(out).writerow([text, us, note])
                out.flush()
            row["torch_us"] = us
        if options.merge and "ours_us" in columns:
            if "torch_us" not in columns:
                columns.append("torch_us")
            comments = [line for line in comments if not line.startswith("# torch:")] + [head]
            with open(path, "w", newline="") as file:
                file.write("".join(line + "\n" for line in comments))
                writer = csv.DictWriter(file, columns, lineterminator="\n")
                writer.writeheader()
                writer.writerows({column: row.get(column, "") for column in columns} for row in rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
