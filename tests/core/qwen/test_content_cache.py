"""Remembering results by content."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ggtts.core.qwen.content_cache import ContentCache


def test_a_result_is_made_once() -> None:
    cache: ContentCache[str] = ContentCache(2)
    made: list[str] = []

    def make(value: str) -> str:
        made.append(value)
        return value

    for key in ("a", "b", "a", "b"):
        assert cache.get(key, lambda key=key: make(key)) == key  # type: ignore[misc]
    assert made == ["a", "b"]


def test_what_was_not_used_for_longest_is_forgotten() -> None:
    cache: ContentCache[int] = ContentCache(2)
    for key in ("a", "b", "a", "c"):
        cache.get(key, lambda: 1)
    assert [cache.get(key, lambda: 2) for key in ("a", "c", "b")] == [1, 1, 2]


def test_a_failure_is_not_remembered() -> None:
    cache: ContentCache[int] = ContentCache(2)

    def fail() -> int:
        raise ValueError

    for _ in range(2):
        try:
            cache.get("a", fail)
        except ValueError:
            continue
        raise AssertionError
    assert cache.get("a", lambda: 3) == 3


def test_clearing() -> None:
    cache: ContentCache[int] = ContentCache(2)
    cache.get("a", lambda: 1)
    cache.clear()
    assert cache.get("a", lambda: 2) == 2


def test_threads() -> None:
    cache: ContentCache[int] = ContentCache(4)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda index: cache.get(index % 6, lambda: index % 6), range(600)))
    assert results == [index % 6 for index in range(600)]


def test_looking_without_making() -> None:
    cache: ContentCache[int] = ContentCache(2)
    assert cache.find("a") is None
    for key in ("a", "b"):
        cache.get(key, lambda: 1)
    assert cache.find("a") == 1
    cache.get("c", lambda: 1)
    assert (cache.find("a"), cache.find("b")) == (1, None), "what was found was used"
