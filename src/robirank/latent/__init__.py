"""Rankers over ids: latent collaborative retrieval."""
