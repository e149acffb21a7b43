"""What looks at the outside world and states effects; never the agent."""
