"""``python -m otel_turnavoid`` is ``turnavoid``."""

from otel_turnavoid.cli.main import main

if __name__ == "__main__":
    main()
