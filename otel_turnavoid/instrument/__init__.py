"""What users put into their agents: decorators and context managers."""
