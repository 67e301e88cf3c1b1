"""What comes in: judged documents from files and frames, folds, generators."""
