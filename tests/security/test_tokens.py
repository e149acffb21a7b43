"""Bearer tokens: their files, how they are known, and how they change while the process runs."""

# ruff: noqa: PLR0913, PLR0917 - fixtures are arguments

from __future__ import annotations

import hmac
import logging

import pytest

from otel_turnavoid.collector import auth
from otel_turnavoid.collector.answer import Refused, Trouble
from otel_turnavoid.collector.auth import SENDERS, Authenticator, Credential
from otel_turnavoid.collector.complaints import Complaints
from otel_turnavoid.collector.duration import Duration
from otel_turnavoid.collector.securing import BearerTokenAuth, TokenFile
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.vocabulary import Role

KEY = "extensions.bearertokenauth"
FIRST = "first-token-0123456789"
SECOND = "second-token-0123456789"


@pytest.fixture
def made(tmp_path):
    """Make an authenticator from the texts of files, all of one role each."""

    def make(**texts: str) -> Authenticator:
        files = []
        for role, text in texts.items():
            path = tmp_path / f"{role}.token"
            path.write_bytes(text.encode())
            files.append(TokenFile(filename=str(path), role=Role(role)))
        return Authenticator(BearerTokenAuth(tokens=tuple(files)), KEY)

    return make


def asked(authenticator: Authenticator, token: str) -> Credential | Refused:
    return authenticator.admit([f"Bearer {token}".encode()], SENDERS)


class TestFiles:
    def test_a_file_holds_a_token_a_line(self, made):
        authenticator = made(agent=f"{FIRST}\n\n  {SECOND}  \r\n")

        assert asked(authenticator, FIRST) == Credential(Role.AGENT, "tokens[0]")
        assert asked(authenticator, SECOND) == Credential(Role.AGENT, "tokens[0]")

    def test_each_file_has_its_role(self, made):
        authenticator = made(agent=FIRST, observer=SECOND)

        assert asked(authenticator, SECOND) == Credential(Role.OBSERVER, "tokens[1]")

    def test_a_subject_names_the_credential(self, tmp_path):
        (tmp_path / "t").write_text(FIRST)
        file = TokenFile(filename=str(tmp_path / "t"), role=Role.AGENT, subject="shop")

        authenticator = Authenticator(BearerTokenAuth(tokens=(file,)), KEY)

        assert asked(authenticator, FIRST) == Credential(Role.AGENT, "shop")

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "{path} holds no token"),
            (" \n\n", "{path} holds no token"),
            ("short", "{path}, line 1: a token has at least 16 characters"),
            (f"{FIRST}\nshort", "{path}, line 2: a token has at least 16 characters"),
            ("Bearer " + FIRST, "{path}, line 1: a token has letters, digits and -._~+/ only"),
            ("pässword-0123456789", "{path}, line 1: a token has letters, digits and -._~+/ only"),
            (f"{FIRST}\n{FIRST}", "{path} holds a token that stands twice"),
        ],
    )
    def test_a_bad_file_is_refused_without_showing_it(self, made, tmp_path, text, said):
        with pytest.raises(ConfigurationError) as caught:
            made(agent=text)

        path = tmp_path / "agent.token"
        assert str(caught.value) == f"{KEY}.tokens[0].filename: {said.format(path=path)}"
        assert FIRST not in str(caught.value)

    def test_one_token_with_two_roles_is_refused(self, made, tmp_path):
        with pytest.raises(ConfigurationError) as caught:
            made(agent=FIRST, observer=FIRST)

        path = tmp_path / "observer.token"
        assert str(caught.value) == (
            f"{KEY}.tokens[1].filename: {path} holds a token that stands twice"
        )

    def test_a_missing_file_is_named(self, tmp_path):
        file = TokenFile(filename=str(tmp_path / "none"), role=Role.AGENT)

        with pytest.raises(ConfigurationError) as caught:
            Authenticator(BearerTokenAuth(tokens=(file,)), KEY)

        assert str(caught.value) == (
            f"{KEY}.tokens[0].filename: {tmp_path / 'none'} cannot be read:"
            " no such file or directory"
        )


class TestComparison:
    def test_it_is_of_hashes_and_goes_through_all_of_them(self, made, monkeypatch):
        """So that the time says neither how much of a token was right nor which one it was."""
        authenticator = made(agent=f"{FIRST}\n{SECOND}")
        compared, compare_digest = [], hmac.compare_digest

        def watched(known, given):
            compared.append((len(known), len(given)))
            return compare_digest(known, given)

        monkeypatch.setattr(auth.hmac, "compare_digest", watched)
        for token in (FIRST, SECOND, "x"):
            asked(authenticator, token)

        assert compared == [(32, 32)] * 6

    def test_no_token_is_kept(self, made):
        authenticator = made(agent=FIRST)

        assert FIRST not in repr(authenticator.tokens.value)
        assert FIRST.encode() not in b"".join(each.digest for each in authenticator.tokens.value)

    def test_another_scheme_can_be_wanted(self, tmp_path):
        (tmp_path / "t").write_text(FIRST)
        file = TokenFile(filename=str(tmp_path / "t"), role=Role.AGENT)
        authenticator = Authenticator(BearerTokenAuth(tokens=(file,), scheme="Token"), KEY)

        refused = asked(authenticator, FIRST)

        assert refused == Refused(
            Trouble.UNAUTHENTICATED, "a known token is wanted: Authorization: Token <token>"
        )
        assert authenticator.admit([f"token {FIRST}".encode()], SENDERS) == Credential(
            Role.AGENT, "tokens[0]"
        )


class TestReload:
    def test_a_new_token_is_known_and_the_old_one_is_not(
        self, start, client, folder, tokens, runs, until
    ):
        secured = client(start())
        assert secured.post("/v1/traces", runs[0], tokens["agent"]).status_code == 200

        (folder / "agent.token").write_text(SECOND)

        until(lambda: secured.post("/v1/traces", runs[0], SECOND).status_code == 200)
        assert secured.post("/v1/traces", runs[0], tokens["agent"]).status_code == 401

    def test_both_are_known_while_both_stand_in_the_file(self, made, tmp_path):
        authenticator = made(agent=FIRST)
        (tmp_path / "agent.token").write_text(f"{FIRST}\n{SECOND}\n")

        authenticator.tokens.refresh()

        assert asked(authenticator, FIRST) == asked(authenticator, SECOND)

    @pytest.mark.parametrize("broken", ["", "short\n", None])
    def test_broken_files_leave_what_was_known_and_are_complained_of_once(
        self, made, tmp_path, caplog, broken
    ):
        authenticator = made(agent=FIRST)
        path = tmp_path / "agent.token"
        if broken is None:
            path.unlink()
        else:
            path.write_text(broken)

        authenticator.tokens.refresh()
        authenticator.tokens.refresh()

        assert asked(authenticator, FIRST) == Credential(Role.AGENT, "tokens[0]")
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert record.getMessage().endswith("; what was read before stays in use")

    def test_mended_files_are_said_to_be(self, made, tmp_path, caplog):
        caplog.set_level(logging.INFO)
        authenticator = made(agent=FIRST)
        path = tmp_path / "agent.token"
        path.write_text("")
        authenticator.tokens.refresh()
        path.write_text(SECOND)
        authenticator.tokens.refresh()

        assert [record.getMessage() for record in caplog.records][1:] == [
            f"{KEY}: can be read again",
            f"{KEY}: has changed, the new files are in use",
        ]

    def test_tokens_are_read_again_every_ten_seconds_unless_told_otherwise(self):
        section = BearerTokenAuth(tokens=())

        assert section.reload_interval == Duration(10_000_000_000)


class TestComplaints:
    def test_the_same_is_said_once_a_minute_with_how_often_it_was_true(self, caplog):
        now = 0.0
        complaints = Complaints(lambda: now)
        for second in (0, 1, 59, 60):
            now = second
            complaints.add("refused")

        assert [record.getMessage() for record in caplog.records] == [
            "refused",
            "refused (2 more times)",
        ]
