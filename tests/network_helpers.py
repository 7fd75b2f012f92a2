# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers and weights for networks in tests."""

import torch

f64 = torch.float64


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(shape, generator=seeded(seed), dtype=f64)


def redraw(module, seed=0):
    """Give a module known float64 weights and running statistics, without the global RNG."""
    module.double()
    generator = seeded(seed)
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator, dtype=f64) - 0.45)
    for name, buffer in module.named_buffers():
        if name.endswith("running_var"):
            buffer.fill_(0.7)
    return module
