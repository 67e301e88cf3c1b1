"""What one does with fitted factors: recommend, fold in, evaluate, export."""
