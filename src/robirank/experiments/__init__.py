"""Tables and figures, each one function."""
