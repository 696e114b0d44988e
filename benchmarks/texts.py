"""What the benchmarks say; the synthetic tokenizers know these words."""

SENTENCE = (
    "The quick brown fox jumps over the lazy dog, and then it runs through the green field "
    "before the rain begins to fall on the old village."
)

LONGER_TEXT = SENTENCE + " All the birds are silent until the clouds have gone."
"""About six seconds in OmniVoice."""


def words(text: str) -> list[str]:
    """Return the distinct words of an ASCII text, without punctuation, in order."""
    return list(dict.fromkeys(word.strip(".,!?") for word in text.split()))
