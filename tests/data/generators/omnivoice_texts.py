"""What dump_omnivoice_text.py asks the official OmniVoice about texts."""

from omnivoice_cases import EN, LONG_EN, LONG_ZH, ZH

CUT = [
    EN,
    LONG_EN,
    ZH,
    LONG_ZH,
    "",
    "no punctuation at all here",
    "One. Two. Three. Four.",
    "...!!!",
    ".a.b.c.",
    "A,b;c:d!e?f",
    'He said "hi." Then (left.) Done!',
    "Mr. and Mrs. Lee, No. 5, St. John.",
    "a" * 50 + ". b.",
    "x. " * 20,
    "“你好。”他说，“再见！”",
    "  spaced .  out .  ",
    "i.e. this vs. that Etc. fig. 3",
    "第一。第二。\n第三。",
]
"""Texts to be cut into chunks."""

UNFINISHED = [
    "",
    " ",
    "hello",
    "hello.",
    "hello ",
    "你好",
    "你好。",
    "hi 你",
    "done…",
    "(x)",
    'x"',
    "日本",
    "한국",
    "a-",
    "a、",
    "……",
]
"""Texts to end with a punctuation mark."""

COMBINED = [
    (EN, None),
    (EN, "Ref text."),
    (" a\n b\r\n c ", "  r  "),
    ("你 好 world 世 界", None),
    ("（测试）(x)", None),
    ("a  \t b", "x\t\ty"),
    ("中文 English 中文", "参考 text"),
    ("a\u00a0b", ""),
    ("日本 語 テスト", None),
    ("你\u3000好", None),
]
"""Texts, and what a reference says before them."""

LANGUAGES = [
    None,
    "None",
    "none",
    "en",
    "EN",
    "English",
    "english",
    "ENGLISH",
    "zh",
    "Chinese",
    "Mandarin",
    "chinese",
    "yue",
    "Cantonese",
    "ja",
    "Japanese",
    "de",
    "xx",
    "klingon",
    "",
    "arbëreshë albanian",
    "Ömie",
    "zh-CN",
]
"""What a language may be called."""

INSTRUCTIONS = [
    ("male", False),
    ("Male, Young Adult", False),
    ("female，low pitch", False),
    ("男，青年", False),
    ("男，青年", True),
    ("male, young adult", True),
    ("男，四川话", False),
    ("male, 四川话", False),
    ("female, british accent", True),
    ("男, american accent", True),
    ("whisper", True),
    ("耳语", False),
    (" , male , ", False),
    ("", False),
    ("   ", False),
    ("male, female", False),
    ("low pitch, high pitch", False),
    ("四川话, british accent", False),
    ("mael", False),
    ("happy", False),
    ("male,child,very high pitch,whisper,indian accent", False),
    ("四川话，东北话", False),
    ("MIDDLE-AGED", False),
    ("middle aged", False),
    ("男，female", False),
    ("american accent, british accent", False),
]
"""Voice designs, and whether they are for Chinese text."""

TAGGED = [
    "[laughter]",
    "a [sigh] b",
    "[laughter][laughter]",
    "[unknown] tag",
    "哈哈[laughter]好",
    "[question-en]?",
    "<|text_start|>[laughter] hi<|text_end|>",
]
"""Texts with nonverbal tags."""
