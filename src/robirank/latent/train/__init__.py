"""Training: what was asked, what was settled, and one loop over epochs, here or on a cluster."""
