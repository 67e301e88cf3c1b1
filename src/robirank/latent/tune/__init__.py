"""All of λ: the noise of a table, the rule, the path under a falling λ, the search, the trials."""
