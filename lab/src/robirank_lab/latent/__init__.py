"""The comparison of latent models."""
