"""What must hold whatever the implementation: stored numbers, an oracle and facts from outside."""
