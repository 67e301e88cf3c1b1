"""What comes in: judged documents and interactions, from files and frames; splits, generators."""
