"""A server for models: ``robirank serve MODEL``, and the same application for other programs.

Needs the extra ``robirank[serve]``.
"""

from robirank.serve.application import app as app
from robirank.serve.keys import Keys as Keys
from robirank.serve.messages import RuleSet as RuleSet
from robirank.serve.self_test import known_answers as known_answers
from robirank.serve.server import Server as Server
from robirank.serve.settings import Limits as Limits
from robirank.serve.testing import Client as Client
