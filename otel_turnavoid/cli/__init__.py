"""The turnavoid command; one small file per command."""
