"""Input data: judged documents and interactions from files and frames, splits, generators."""
