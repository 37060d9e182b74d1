"""One thread for arithmetic: the models are tiny and the machine is shared."""

import torch

torch.set_num_threads(1)
