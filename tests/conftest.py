"""Every test runs torch on one thread: with two, small networks are many times slower beside a second test process."""

import torch

torch.set_num_threads(1)
