"""The tokenizer against ids and Unicode classes that the official packages gave."""

import json
import logging
from itertools import islice
from pathlib import Path

import pytest
from tokenizers import Regex, normalizers, pre_tokenizers

from ggtts.core.errors import ModelFileError, TextError
from ggtts.core.text.tokenizer import ADDED_TOKEN, NORMAL_TOKEN, QWEN2_PATTERN, TextTokenizer
from support.data import DATA, golden_json
from support.steps import counted


def gguf_arrays(checkpoint: Path) -> dict[str, list]:
    """The arrays that a converter writes, from the files of a checkpoint folder."""
    vocabulary = json.loads((checkpoint / "vocab.json").read_text("utf-8"))
    config = json.loads((checkpoint / "tokenizer_config.json").read_text("utf-8"))
    tokens = {index: (token, NORMAL_TOKEN) for token, index in vocabulary.items()}
    for index, token in config["added_tokens_decoder"].items():
        tokens[int(index)] = (token["content"], ADDED_TOKEN)
    rows = [tokens[index] for index in range(len(tokens))]
    lines = (checkpoint / "merges.txt").read_text("utf-8").split("\n")
    return {
        "tokenizer.ggml.tokens": [token for token, _ in rows],
        "tokenizer.ggml.token_type": [kind for _, kind in rows],
        "tokenizer.ggml.merges": [line for line in lines[1:] if line],
    }


@pytest.fixture(scope="module")
def official() -> dict:
    return golden_json("qwen_tokenizer")


@pytest.fixture(scope="module")
def arrays() -> dict[str, list]:
    return gguf_arrays(DATA / "checkpoints" / "text_tokenizer")


@pytest.fixture(scope="module")
def tokenizer(arrays: dict[str, list]) -> TextTokenizer:
    return TextTokenizer.from_metadata(arrays)


@pytest.fixture(scope="module")
def unicode_tables() -> dict:
    return golden_json("unicode")


def test_ids_equal_the_official_ones(tokenizer: TextTokenizer, official: dict) -> None:
    wrong = [row["text"] for row in official["rows"] if tokenizer.encode(row["text"]) != row["ids"]]
    assert not wrong
    assert len(official["rows"]) > 100


def test_text_survives_the_round_trip(tokenizer: TextTokenizer) -> None:
    text = "Hello, 世界!\n\t 👍🏽 नमस्ते <|im_start|>user ### 3.14"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_added_tokens_are_single_ids_and_are_matched_inside_words(tokenizer: TextTokenizer) -> None:
    start = tokenizer.token_id("<|im_start|>")
    assert tokenizer.encode("<|im_start|>") == [start]
    assert tokenizer.encode("x<|im_start|>y") == [*tokenizer.encode("x"), start, *tokenizer.encode("y")]
    assert tokenizer.token_id("no such token") is None


def test_empty_text_has_no_ids(tokenizer: TextTokenizer) -> None:
    assert tokenizer.encode("") == []


def test_a_lone_surrogate_is_refused(tokenizer: TextTokenizer) -> None:
    with pytest.raises(TextError, match="character 1"):
        tokenizer.encode("a\ud800")


def test_merges_that_begin_with_a_number_sign_are_used(
    arrays: dict[str, list], tokenizer: TextTokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    kept = [merge for merge in arrays["tokenizer.ggml.merges"] if not merge.startswith("#")]
    assert len(kept) < len(arrays["tokenizer.ggml.merges"])
    with caplog.at_level(logging.WARNING):
        poorer = TextTokenizer.from_metadata(arrays | {"tokenizer.ggml.merges": kept}, source="old.gguf")
    assert "old.gguf" in caplog.text
    assert "convert.py" in caplog.text
    assert len(poorer.encode("########")) > len(tokenizer.encode("########"))
    assert poorer.encode("Hello, world!") == tokenizer.encode("Hello, world!")


def test_files_without_token_types(tokenizer: TextTokenizer, arrays: dict[str, list], official: dict) -> None:
    """OmniVoice files have none, and leave ids without a token empty: added tokens are those that no merge makes."""
    untyped = {key: value for key, value in arrays.items() if "token_type" not in key}
    untyped["tokenizer.ggml.tokens"] = [*arrays["tokenizer.ggml.tokens"], "", "", "<|late|>"]
    found = TextTokenizer.from_metadata(untyped)
    assert all(found.encode(row["text"]) == row["ids"] for row in official["rows"])
    assert found.encode("a<|late|>") == [*tokenizer.encode("a"), len(tokenizer) + 2]


def test_a_complete_file_gives_no_warning(arrays: dict[str, list], caplog: pytest.LogCaptureFixture) -> None:
    TextTokenizer.from_metadata(arrays)
    assert not caplog.records


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a | {"tokenizer.ggml.token_type": [1]}, "token types"),
        (lambda a: {key: value for key, value in a.items() if "merges" not in key}, "missing"),
        (lambda a: a | {"tokenizer.ggml.merges": ["no-such tokens"]}, "do not belong together"),
        (lambda a: a | {"tokenizer.ggml.merges": ["onlyone"]}, "do not belong together"),
        (lambda a: a | {"tokenizer.ggml.tokens": ["a"] * len(a["tokenizer.ggml.tokens"])}, "occur twice"),
        (
            lambda a: a | {"tokenizer.ggml.tokens": [f"<{t}>" for t in a["tokenizer.ggml.tokens"]]},
            "byte tokens are missing",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays: dict[str, list], change, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        TextTokenizer.from_metadata(change(arrays))


def test_a_full_size_vocabulary_builds_quickly() -> None:
    tokens, merges = synthetic_vocabulary(151_643)
    tokens += [f"<|added-{number}|>" for number in range(33)]
    types = [NORMAL_TOKEN] * 151_643 + [ADDED_TOKEN] * 33
    tokenizer, steps = counted(lambda: TextTokenizer(tokens, types, merges))
    assert len(tokenizer) == 151_676
    assert steps < 3 * len(tokens), "the library does nearly everything, which takes 0.2 s"


def synthetic_vocabulary(size: int) -> tuple[list[str], list[str]]:
    """All 256 bytes, all pairs of them, and as many triples as fit."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [(left, right) for left in symbols for right in symbols]
    triples = ((left + right, last) for left, right in pairs for last in symbols)
    merges = [*pairs, *islice(triples, size - len(symbols) - len(pairs))]
    return symbols + [left + right for left, right in merges], [f"{left} {right}" for left, right in merges]


def test_regular_expression_classes(unicode_tables: dict) -> None:
    """Each code point alone falls into the branch of the pattern that its class says."""
    split = pre_tokenizers.Split(Regex(QWEN2_PATTERN), behavior="isolated")
    runs = unicode_tables["regex_class_runs"]
    for (start, kind), (end, _) in zip(runs, [*runs[1:], [0x110000, ""]], strict=True):
        if kind == "-":
            continue
        for code in {start, end - 1, (start + end) // 2} - {10, 13}:
            # "z" joins a letter, "9" nothing, "!" only what is no letter, number or space.
            words = [word for word, _ in split.pre_tokenize_str(f"z{chr(code)}z9{chr(code)}!9")]
            assert words == expected_words(chr(code), kind), hex(code)


def expected_words(character: str, kind: str) -> list[str]:
    if kind == "L":
        return [f"z{character}z", "9", character, "!", "9"]
    if kind == "N":
        return ["z", character, "z", "9", character, "!", "9"]
    if kind == "s" and character != " ":
        return ["z", f"{character}z", "9", character, "!", "9"]
    return ["z", f"{character}z", "9", f"{character}!", "9"]


def test_normal_form_c(unicode_tables: dict) -> None:
    normalize = normalizers.NFC().normalize_str
    for code, expected in unicode_tables["nfc_single"]:
        assert [ord(c) for c in normalize(chr(code))] == expected
    for first, second, expected in unicode_tables["nfc_pairs"]:
        assert [ord(c) for c in normalize(chr(first) + chr(second))] == expected
    for first, second, expected in unicode_tables["nfc_mark_order"]:
        assert [ord(c) for c in normalize("q" + chr(first) + chr(second))][1:] == expected


def test_composed_and_decomposed_text_have_the_same_ids(tokenizer: TextTokenizer) -> None:
    assert tokenizer.encode("cafe\u0301") == tokenizer.encode("café")
