"""A small training loop; writes how often each CUDA function ran, as torch.profiler (CUPTI) counts it.

usage: train.py COUNTS.json [STEPS]
"""
import collections
import json
import os
import sys

import torch
from torch.profiler import ProfilerActivity, profile

steps = int(sys.argv[2]) if len(sys.argv) > 2 else 20
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(128, 256)
y = torch.randint(0, 10, (128,))


def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    return loss.item()


def mark():
    """A call that nothing else here makes: shows where the counted part begins and ends."""
    torch.cuda.cudart().cudaMemGetInfo(0)


step()
torch.cuda.synchronize()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
    mark()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    mark()
counts = collections.Counter(e.name for e in prof.events() if e.name.startswith(("cuda", "cu")))
try:
    torch.cuda.caching_allocator_alloc(1 << 50)
except RuntimeError as error:
    print("train: as wanted:", str(error).splitlines()[0], file=sys.stderr)
kernels = collections.Counter(e.name for e in prof.events() if str(e.device_type).endswith("CUDA") and
                              not e.name.startswith(("Memcpy", "Memset")))
json.dump({"pid": os.getpid(), "calls": counts, "kernels": kernels}, open(sys.argv[1], "w"))
