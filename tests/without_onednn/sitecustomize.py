"""Found on PYTHONPATH, Python imports this first: PyTorch then computes without oneDNN
(tests/numerics.py).
"""

import torch

torch.backends.mkldnn.enabled = False
