def write_tables(run): pass
