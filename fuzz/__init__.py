"""Bad input on purpose: targets for a coverage-guided fuzzer, and what tests share with them.

``make fuzz`` runs every target for a while (``python -m fuzz --help``); ``tests/fuzz`` holds the
same checks to cases that hypothesis and seeded chance make up. ``README.md`` says what each
target holds true, and what the lazy view may leave unseen.
"""
