"""RoBiRank: ranking via robust binary classification.

The flat public API. Its names are listed in ``__init__.pyi``, and each is imported when it is first
used, so that ``import robirank`` costs next to nothing. Fits, searches and runs on a cluster tell
the logger ``robirank`` what they do; nothing is shown unless the program asks for it.
"""

import logging

import lazy_loader

__version__ = "0.2.0.dev1"

logging.getLogger(__name__).addHandler(logging.NullHandler())

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
