"""What reading a model takes, whatever kind it is of: nodes, budgets, constants, sizes that a call tells."""
