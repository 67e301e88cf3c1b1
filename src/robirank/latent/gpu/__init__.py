"""The exact solver, retrieval and fold-in on a CUDA device, by PyTorch and kernels of our own."""
