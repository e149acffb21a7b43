"""The demo: scripted agents, the shop they work on, and an observer who looks at it.

``scenario`` says what is played and what must come out; ``agent``, ``shop`` and ``observer``
play it in processes of their own; ``stage`` starts and stops them; ``figures`` reads the ledger
and checks it against the scenario; ``playbill`` prints.
"""
