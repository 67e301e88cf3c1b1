from .application import app as app
from .keys import Keys as Keys
from .messages import RuleSet as RuleSet
from .self_test import known_answers as known_answers
from .server import Server as Server
from .settings import Limits as Limits
from .testing import Client as Client
