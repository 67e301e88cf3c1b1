"""The solvers: each can start, do an epoch, give and take its state."""
