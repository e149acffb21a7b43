"""Bad times are said when they begin and end, but not over and over."""

from __future__ import annotations

from otel_turnavoid.forward.spell import QUIET_S, Spell


def test_the_beginning_and_the_end_are_said_once():
    spell = Spell(lambda: 0.0)

    assert [spell.end(), spell.begin(), spell.begin(), spell.end(), spell.end()] == [
        *(False, True, False),
        *(True, False),
    ]


def test_what_flickers_is_said_once_in_a_while():
    now = [0.0]
    spell = Spell(lambda: now[0])
    said = []
    for second in (0, 1, QUIET_S - 1, QUIET_S):
        now[0] = second
        said.append((spell.begin(), spell.end()))

    assert said == [(True, True), (False, False), (False, False), (True, True)]
