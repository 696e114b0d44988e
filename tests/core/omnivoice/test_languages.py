"""The table of languages and how a language is found in it."""

import hashlib

import pytest

from ggtts.core.errors import UsageError
from ggtts.core.omnivoice.languages import find_language, languages, resolve_language
from support.data import golden_json


def test_the_table_is_that_of_the_official_package() -> None:
    expected = golden_json("unicode")["omnivoice_languages"]
    lines = sorted((language.name.lower(), language.id) for language in languages())
    table = "\n".join(f"{name}\t{identifier}" for name, identifier in lines)
    assert len(languages()) == expected["count"] == 646
    assert len({language.id for language in languages()}) == expected["ids"]
    assert hashlib.sha256(table.encode()).hexdigest() == expected["sha256_of_sorted_name_tab_id_lines"]


def test_every_spelling_in_any_case_finds_its_language() -> None:
    for language in languages():
        for spelling in language.spellings:
            for written in (spelling, spelling.upper(), spelling.lower(), f" {spelling}\n"):
                assert find_language(written) is language, written


def test_no_spelling_means_two_languages() -> None:
    spellings = [spelling.casefold() for language in languages() for spelling in set(language.spellings)]
    named_like_their_id = sum(language.id == language.name.casefold() for language in languages())
    assert len(spellings) - len(set(spellings)) == named_like_their_id == 3


def test_what_the_official_package_knows_means_the_same() -> None:
    for case in golden_json("omnivoice_text")["language"]:
        if case["out"] or (case["text"] or "none").lower() == "none":
            assert resolve_language(case["text"]) == case["out"], case


@pytest.mark.parametrize(
    ("value", "identifier"),
    [
        ("EN", "en"),
        ("zh-CN", "zh"),
        ("zh_Hans_CN", "zh"),
        ("zh-HK", "yue"),
        ("pt-BR", "pt"),
        ("Mandarin", "zh"),
        ("eng", "en"),
        ("ger", "de"),
        ("deu", "de"),
        ("Deutsch", "de"),
        ("日本語", "ja"),
        ("arabic", "arb"),
        ("tagalog", "fil"),
        ("arbereshe albanian", "aae"),
        ("Aja", "ajg"),
    ],
)
def test_other_ways_to_say_it(value: str, identifier: str) -> None:
    assert resolve_language(value) == identifier


@pytest.mark.parametrize("value", [None, "", " ", "None", "NONE", "auto"])
def test_no_language_in_particular(value: str | None) -> None:
    assert resolve_language(value) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("Englsh", "unknown language 'Englsh', did you mean English"),
        ("Kurdish", "did you mean Central Kurdish or Northern Kurdish"),
        ("basa", r"Basa \(Cameroon\) or Basa \(Nigeria\)"),
        ("xx", r"unknown language 'xx' \(accepted: 646 languages"),
        ("x-men", "unknown language"),
        ("-", "unknown language"),
        ("en-", "unknown language"),
    ],
)
def test_unknown_languages_are_an_error_with_near_matches(value: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve_language(value)
