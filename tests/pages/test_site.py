"""Every path of the site: what its page says, and what it says where there is none."""

from __future__ import annotations

import re
from base64 import b64decode
from hashlib import sha256
from itertools import pairwise
from urllib.parse import quote

import pytest

from otel_turnavoid.errors import LedgerError
from otel_turnavoid.pages import site

HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
}


class TestEveryPage:
    @pytest.mark.parametrize(
        "path", ["/", "/pairs", "/pairs?arm=no", "/runs/k-move", "/nothing", "/find?id=x"]
    )
    def test_is_kept_nowhere_framed_nowhere_and_says_nothing_to_others(self, visitor, path):
        headers = visitor.get(path).answer.headers

        assert {key: headers[key] for key in HEADERS} == HEADERS

    @pytest.mark.parametrize("path", ["/", "/pairs", "/runs/k-move", "/nothing"])
    def test_has_a_policy_that_allows_its_own_style_and_forms_to_itself(self, visitor, path):
        answer = visitor.get(path).answer
        policy = answer.headers["content-security-policy"]

        (allowed,) = re.findall(r"style-src 'sha256-([^']+)'", policy)
        (style,) = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
        assert sha256(style.encode()).digest() == b64decode(allowed)
        assert policy.split("; ") == [
            "default-src 'none'",
            f"style-src 'sha256-{allowed}'",
            "img-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ]

    @pytest.mark.parametrize("path", ["/", "/pairs", "/runs/k-move", "/nothing"])
    def test_has_landmarks_a_skip_link_and_one_first_heading(self, visitor, path):
        page = visitor.get(path)

        names = [name for name, _ in page.elements]
        assert [names.count(one) for one in ("header", "main", "footer", "h1")] == [1, 1, 1, 1]
        assert page.links[0] == "#content"
        assert page.ids.count("content") == 1

    @pytest.mark.parametrize("path", ["/", "/pairs", "/pairs/{k-move}", "/runs/k-move"])
    def test_has_no_script_and_each_id_once(self, visitor, shop, path):
        page = visitor.get(path.replace("{k-move}", str(shop.number("k-move"))))

        assert "<script" not in page.answer.text
        assert not re.search(r' on\w+="| style="', page.answer.text)
        assert sorted(set(page.ids)) == sorted(page.ids)

    @pytest.mark.parametrize("path", ["/", "/pairs", "/pairs/{k-move}", "/runs/k-move"])
    def test_labels_every_field_and_captions_every_table(self, visitor, shop, path):
        page = visitor.get(path.replace("{k-move}", str(shop.number("k-move"))))

        fields = {found["id"] for name, found in page.elements if name in ("input", "select")}
        labelled = {found["for"] for name, found in page.elements if name == "label"}
        names = [name for name, _ in page.elements]
        assert fields == labelled
        assert names.count("table") == names.count("caption")
        assert all("scope" in found for name, found in page.elements if name == "th")

    @pytest.mark.parametrize("path", ["/", "/pairs", "/pairs/{k-move}", "/runs/k-move"])
    def test_skips_no_level_of_headings(self, visitor, shop, path):
        page = visitor.get(path.replace("{k-move}", str(shop.number("k-move"))))

        levels = [int(name[1]) for name, _ in page.elements if re.fullmatch("h[1-6]", name)]
        assert levels[0] == 1
        assert [b for a, b in pairwise(levels) if b > a + 1] == []

    def test_says_when_and_from_which_ledger_it_is(self, visitor):
        assert "As of 2026-09-21 14:13:20 UTC, from sqlite:///" in visitor.get("/").text

    def test_is_only_asked_for_never_sent_to(self, visitor):
        assert [visitor.get("/", method).status for method in ("POST", "PUT", "DELETE")] == [
            405
        ] * 3


class TestOverview:
    def test_shows_series_beside_each_other_and_never_added(self, visitor):
        text = visitor.get("/").text

        assert (
            "arm variant evidence pairs avoided added net withheld share withheld"
            " exact-reuse - declared 1 2 0 +2 0 0%"
            " exact-reuse v2 declared 1 0 0 0 2 100%"
            " fused-batch - declared 1 0 2 -2 0 -"
        ) in text

    def test_shows_the_floor_beside_what_candidates_avoid(self, visitor):
        assert (
            "pairs of pairs avoided per pair added per pair"
            " controls (declared evidence) 1 0.00 1.00"
            " exact-reuse (declared evidence) 1 2.00 0.00"
        ) in visitor.get("/").text

    def test_leads_from_a_cause_to_its_pairs(self, visitor, shop):
        (path,) = (link for link in visitor.get("/").links if "cause=effects-suppressed" in link)

        assert f"/pairs/{shop.number('k-move')}" in visitor.get(path).links
        assert f"/pairs/{shop.number('k-refund')}" not in visitor.get(path).links

    def test_keeps_other_accounts_apart(self, visitor):
        page = visitor.get("/")

        assert page.headings[:6] == [
            "Did whole model turns disappear?",
            "Turns",
            "Why turns were withheld",
            "Noise",
            "Latest pairs",
            "Which pairs do you look for?",
        ]
        assert "Apart from turns: never added to them, nor to each other" in page.text
        assert {"Required effects", "Tools", "Time (ms)", "Tokens"} <= set(page.headings)

    def test_of_an_empty_ledger_says_so(self, empty, visit):
        text = visit(empty.ledger).get("/").text

        assert "No pair of a control and a candidate run has been decided yet" in text
        assert "Unknown: no two control runs of one input were compared." in text

    def test_counts_what_is_decided_meanwhile(self, empty, visit):
        visitor = visit(empty.ledger)
        visitor.get("/")
        empty.run("c", turns=4)
        empty.run("k", "exact-reuse", 1)
        empty.decide()

        assert "exact-reuse declared 1 3 0 +3 0 0%" in visitor.get("/").text

    def test_says_how_many_verdicts_are_contradicted(self, shop, visitor):
        shop.run("k-refund", "exact-reuse", 2, task="refund", effects=["another effect"])
        shop.decide()

        text = visitor.get("/").text
        assert "Evidence that arrived later speaks against 1 verdict;" in text

    def test_of_a_journal_that_takes_long_says_how_far_it_got(self, shop, visit, monkeypatch):
        monkeypatch.setattr(site.Counting, "read_on", lambda counting: setattr(counting, "_of", 9))

        assert "Still counting: 0 of 9 decisions so far." in visit(shop.ledger).get("/").text


class TestPairs:
    def test_come_latest_first(self, visitor, shop):
        candidates = sorted(("k-refund", "k-move", "k-swap"), key=shop.number, reverse=True)

        assert [link for link in visitor.get("/pairs").links if link.startswith("/pairs/")] == [
            f"/pairs/{shop.number(each)}" for each in candidates
        ]

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("arm=fused-batch", ["k-swap"]),
            ("variant=v2", ["k-move"]),
            ("result=avoided", ["k-refund"]),
            ("result=withheld&cause=effects-suppressed", ["k-move"]),
            ("experiment=desk", ["k-move"]),
            ("arm=&variant=&result=&cause=&experiment=", ["k-refund", "k-move", "k-swap"]),
            ("experiment=nowhere", []),
        ],
    )
    def test_are_those_asked_for(self, visitor, shop, query, found):
        links = visitor.get(f"/pairs?{query}").links

        assert {link for link in links if link.startswith("/pairs/")} == {
            f"/pairs/{shop.number(each)}" for each in found
        }

    def test_keep_in_the_form_what_was_asked(self, visitor):
        page = visitor.get("/pairs?variant=%3Cv2%3E&result=withheld")

        chosen = [found["value"] for name, found in page.elements if "selected" in found]
        boxes = {found["name"]: found["value"] for name, found in page.elements if name == "input"}
        assert (chosen, boxes["variant"]) == (["withheld"], "<v2>")

    def test_go_on_where_the_last_page_ended(self, empty, visit):
        for number in range(30):
            empty.run(f"c{number}", turns=3, task=number)
            empty.run(f"k{number}", "exact-reuse", 2, task=number)
        empty.decide()
        visitor = visit(empty.ledger)

        first = visitor.get("/pairs?arm=exact-reuse")
        (older,) = (link for link in first.links if "before=" in link)
        second = visitor.get(older)
        shown = [
            link for page in (first, second) for link in page.links if link.startswith("/pairs/")
        ]
        assert (len(shown), len(set(shown))) == (30, 30)
        assert "there are no older ones" in second.text
        assert "/pairs?arm=exact-reuse" in second.links

    @pytest.mark.parametrize(
        ("query", "said"),
        [
            ("arm=control", "arm: wants one of exact-reuse, fused-batch; got 'control'"),
            ("result=good", "result: wants one of avoided, withheld, added, equal; got 'good'"),
            ("before=x", "before: wants the number of a pair, got 'x'"),
            ("variant=" + "v" * 513, "variant: has at most 512 characters, got 513"),
        ],
    )
    def test_that_cannot_be_asked_for_are_400_and_say_what_can(self, visitor, query, said):
        page = visitor.get(f"/pairs?{query}")

        assert (page.status, said in page.text) == (400, True)


class TestPair:
    def test_withheld_says_why_with_what_was_found_and_wanted(self, visitor, shop):
        page = visitor.get(f"/pairs/{shop.number('k-move')}")

        assert page.headings[0] == "2 model turns withheld: effects-suppressed"
        assert page.headings[1] == "Why this was withheld"
        assert "Found missing after the candidate: order:42=cancelled" in page.text
        assert "Wanted the candidate causes every effect of the control" in page.text

    def test_avoided_says_what_was_in_order(self, visitor, shop):
        page = visitor.get(f"/pairs/{shop.number('k-refund')}")

        assert page.headings[:2] == ["2 model turns avoided", "What was found to be in order"]

    def test_shows_both_runs_on_one_scale_with_turns_calls_and_tools(self, visitor, shop):
        page = visitor.get(f"/pairs/{shop.number('k-refund')}")

        assert "Control c-refund 4 committed turns · 4 calls · 4 tools" in page.text
        assert "Candidate (exact-reuse) k-refund 2 committed turns · 2 calls · 2 tools" in page.text
        assert page.text.count("over 4.4 s") == 2

    def test_leads_to_its_runs_and_to_both_traces_in_jaeger(self, visitor, shop):
        page = visitor.get(f"/pairs/{shop.number('k-refund')}")

        traces = [shop.ledger.run(run_id).run.trace_ids[0] for run_id in ("c-refund", "k-refund")]
        assert {"/runs/c-refund", "/runs/k-refund"} <= set(page.links)
        assert {f"http://jaeger.example:16686/trace/{each}" for each in traces} <= set(page.links)

    def test_has_no_link_to_jaeger_where_nobody_said_where_it_is(self, shop, visit):
        page = visit(shop.ledger, jaeger_url=None).get(f"/pairs/{shop.number('k-refund')}")

        assert [link for link in page.links if "://" in link] == []

    def test_contradicted_says_since_when_and_what_would_be_decided_today(self, shop, visitor):
        shop.run("k-refund", "exact-reuse", 2, task="refund", effects=["another effect"])
        shop.decide()

        text = visitor.get(f"/pairs/{shop.number('k-refund')}").text
        assert "Contradicted since 2026-09-21 14:13:20 UTC" in text
        assert "Today it would be: 2 model turns withheld" in text

    def test_of_two_controls_is_noise(self, visitor):
        (path,) = (
            link for link in visitor.get("/runs/c-refund-again").links if link.startswith("/pairs/")
        )

        page = visitor.get(path)
        assert page.headings[0] == "Two controls: noise"
        assert "0 avoided and 1 added by chance" in page.text

    @pytest.mark.parametrize("number", ["0", "999999", "x", "9" * 30, "-1"])
    def test_that_is_not_there_is_404(self, visitor, number):
        page = visitor.get(f"/pairs/{number}")

        assert (page.status, page.headings) == (404, ["Not found"])

    def test_number_of_a_run_s_outcome_leads_to_the_run(self, visitor, shop):
        number = next(
            number
            for number, decision in shop.ledger.decisions()
            if getattr(getattr(decision, "run", None), "run_id", "") == "k-move"
        )
        answer = visitor.get(f"/pairs/{number}").answer

        assert (answer.status_code, answer.headers["location"]) == (303, "/runs/k-move")


class TestRun:
    def test_paired_leads_to_its_verdicts(self, visitor, shop):
        page = visitor.get("/runs/c-refund")

        assert page.headings[:2] == ["c-refund", "What it was compared with"]
        assert f"/pairs/{shop.number('k-refund')}" in page.links

    def test_alone_says_why_and_what_would_be_needed(self, visitor):
        page = visitor.get("/runs/alone")

        assert page.headings[1] == "Why it is in no pair"
        assert "unpaired" in page.text
        assert "a run of the other side needs the same experiment, input digest" in page.text

    def test_shows_what_observers_said(self, visitor):
        text = visitor.get("/runs/k-refund").text

        assert "orders-db/v1 orders-observer / observer-1" in text
        assert "order:42=cancelled refund:42=19.90" in text

    @pytest.mark.parametrize(
        "run_id", ["a/b?c#d", "tr:ab/cd", "ünï köde", "%2F", "<b>&amp;", "12", "a+b"]
    )
    def test_ids_of_any_spelling_have_a_page(self, empty, visit, run_id):
        empty.run(run_id)
        empty.decide()
        visitor = visit(empty.ledger)

        page = visitor.get(f"/runs/{quote(run_id, safe='')}")
        assert (page.status, page.headings[0]) == (200, run_id)
        answer = visitor.get(f"/find?id={quote(run_id, safe='')}").answer
        assert answer.headers["location"] == f"/runs/{quote(run_id, safe='')}"

    @pytest.mark.parametrize("run_id", ["nobody", "%00", "x" * 600])
    def test_that_is_not_there_is_404(self, visitor, run_id):
        assert visitor.get(f"/runs/{run_id}").status == 404


class TestTrace:
    def test_lists_its_runs_and_leads_to_jaeger(self, visitor, shop):
        (trace_id,) = shop.ledger.run("k-move").run.trace_ids
        page = visitor.get(f"/traces/{trace_id}")

        assert "k-move exact-reuse paired 2" in page.text
        assert f"http://jaeger.example:16686/trace/{trace_id}" in page.links

    def test_that_is_not_there_is_404(self, visitor):
        assert visitor.get(f"/traces/{'0' * 32}").status == 404


class TestFinding:
    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ("k-move", "/runs/k-move"),
            ("  k-move ", "/runs/k-move"),
            ("c-move/k-move", "/pairs/{k-move}"),
            ("c-move k-move", "/pairs/{k-move}"),
            ("{k-move}", "/pairs/{k-move}"),
            ("c-refund c-refund-again", "/pairs/{null}"),
        ],
    )
    def test_leads_to_what_is_meant(self, visitor, shop, text, path):
        null = next(n for n, each in shop.ledger.decisions() if hasattr(each, "first"))
        for name, number in (("{k-move}", shop.number("k-move")), ("{null}", null)):
            text, path = text.replace(name, str(number)), path.replace(name, str(number))

        answer = visitor.get(f"/find?id={quote(text)}").answer
        assert (answer.status_code, answer.headers["location"]) == (303, path)

    def test_of_a_trace_leads_to_the_trace(self, visitor, shop):
        (trace_id,) = shop.ledger.run("k-move").run.trace_ids

        answer = visitor.get(f"/find?id={trace_id.upper()}").answer
        assert answer.headers["location"] == f"/traces/{trace_id}"

    def test_of_what_is_not_there_leads_to_what_is_near(self, visitor):
        page = visitor.get("/find?id=k-mve")

        assert page.status == 404
        assert "No run, trace, pair or verdict 'k-mve' in sqlite:///" in page.text
        assert "/runs/k-move" in page.links

    @pytest.mark.parametrize("text", ["", "  ", "%00", "x" * 600])
    def test_of_nothing_is_404(self, visitor, text):
        assert visitor.get(f"/find?id={text}").status == 404


class TestSendersText:
    EVIL = '"><script>alert(1)</script>\u202e'

    @pytest.fixture
    def evil(self, empty, visit):
        evil, terminal = self.EVIL, f"{self.EVIL}\x1b[31m"
        key = {"experiment": evil, "unit": evil}
        empty.run(f"c{evil}", turns=4, agent=terminal, effects=[terminal], **key)
        empty.run(
            f"k{evil}",
            "exact-reuse",
            2,
            agent=terminal,
            variant=evil,
            model=terminal,
            effects=[terminal * 2],
            **key,
        )
        empty.decide()
        return visit(empty.ledger)

    @pytest.mark.parametrize("path", ["/", "/pairs", "/pairs/{k}", "/runs/{c}", "/find?id=%3Cb%3E"])
    def test_is_only_ever_text_and_printable(self, evil, empty, path):
        paths = {
            "{k}": str(empty.number(f"k{self.EVIL}")),
            "{c}": quote(f"c{self.EVIL}", safe=""),
        }
        for name, value in paths.items():
            path = path.replace(name, value)
        page = evil.get(path)

        assert "<script" not in page.answer.text
        assert not {"\u202e", "\x1b"} & set(page.text)


class TestTrouble:
    def test_with_the_ledger_is_503_and_says_when_to_come_back(self, visitor, shop, monkeypatch):
        def broken(*_: object, **__: object) -> None:
            raise LedgerError("disk on fire at /secret")

        monkeypatch.setattr(shop.ledger.__class__, "latest_pairs", broken)
        page = visitor.get("/pairs")

        assert (page.status, page.answer.headers["retry-after"]) == (503, "1")
        assert "The ledger cannot be read now" in page.text
        assert "secret" not in page.text

    def test_of_our_own_is_500_and_in_the_log(self, visitor, shop, monkeypatch, caplog):
        def broken(*_: object, **__: object) -> None:
            raise KeyError("secret")

        monkeypatch.setattr(shop.ledger.__class__, "latest_pairs", broken)
        page = visitor.get("/pairs")

        assert (page.status, page.headings) == (500, ["A bug"])
        assert "secret" not in page.text
        assert "a page failed because of a bug" in caplog.text

    def test_with_too_many_visitors_is_503(self, shop, visit, monkeypatch):
        monkeypatch.setattr(site, "MOST_WAITING", 0)

        assert visit(shop.ledger).get("/pairs").status == 503


def test_the_icon_is_a_picture_of_our_own(visitor):
    answer = visitor.get("/icon.svg").answer

    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert answer.text.startswith("<svg")
