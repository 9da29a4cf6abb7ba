"""Launches one Triton kernel a known number of times.

usage: kernel_triton.py COUNTS.json
"""
import json
import os
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def add_one(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + 1, mask=mask)


x = torch.zeros(1000, device="cuda")
for _ in range(37):
    add_one[(4,)](x, 1000, BLOCK=256)
torch.cuda.synchronize()
assert x.sum().item() == 37000
json.dump({"pid": os.getpid(), "launches": {"add_one": 37}}, open(sys.argv[1], "w"))
