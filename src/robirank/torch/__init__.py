"""RoBiRank for PyTorch (``pip install 'robirank[torch]'``): the loss, and the training of nets."""

from robirank.torch.loss import robirank_loss as robirank_loss
