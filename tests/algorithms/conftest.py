import torch

torch.set_num_threads(1)  # threads that wait for each other make small networks slow
