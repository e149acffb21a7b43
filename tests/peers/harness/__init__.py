"""What the tests beside real programs share: programs, ledgers, recipes, runs to send."""
