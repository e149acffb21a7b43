"""Pure: facts -> runs -> pairs -> verdicts -> accounts. No clock, file, network or database."""
