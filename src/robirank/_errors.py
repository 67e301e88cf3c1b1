"""What errors have in common that are no defects of the program."""


class ToldError(Exception):
    """Something went wrong that the message explains, with what can be done about it."""
