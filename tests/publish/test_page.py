"""A page works under the policy that it states: its own style and nothing else."""

from __future__ import annotations

import re
from base64 import b64decode
from hashlib import sha256

from otel_turnavoid.publish.markup import element
from otel_turnavoid.publish.page import page, policy, style


def test_the_policy_allows_the_page_s_own_style_and_nothing_else() -> None:
    text = page("A title", element("h1", "x"))

    (allowed,) = re.findall(r"style-src 'sha256-([^']+)'", policy())
    (inside,) = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    assert sha256(inside.encode()).digest() == b64decode(allowed)
    assert policy().startswith("default-src 'none'; ")
    assert (
        '<meta http-equiv="Content-Security-Policy" content="'
        + policy().replace("'", "&#x27;")
        + '">'
    ) in text


def test_a_page_says_its_language_and_fits_a_phone() -> None:
    text = page("A title")

    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "<title>A title</title>" in text


def test_the_style_loads_nothing_and_knows_dark_and_paper() -> None:
    assert "url(" not in style()
    assert "@import" not in style()
    assert "@media (prefers-color-scheme: dark)" in style()
    assert "@media print" in style()


def _luminance(color: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = (int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours_have_contrast_in_light_and_dark() -> None:
    """WCAG 2.2: 4.5 for text, 3 for what a drawing shows."""
    light, dark = re.findall(r":root \{(.*?)\}", style(), re.DOTALL)[:2]
    colours = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", text)) for text in (light, dark)]

    weak = [
        (name, ground)
        for scheme in colours
        for ground in ("page", "card")
        for name in set(scheme) - {"page", "card", "line"}
        if _contrast(scheme[name], scheme[ground])
        < (4.5 if name in ("ink", "soft", "control") else 3)
    ]
    assert weak == []
