# ruff: noqa
"""A small, deterministic byte-level BPE with the structure of the Qwen2/Qwen3 tokenizer.

Own code. Trains merges on the inline corpus with plain pair counting, so the result does not
depend on any library version. 256 byte symbols + N_MERGES merges, then special tokens.
"""

import collections

import regex

# the Qwen2 pre-tokenizer pattern (single digits, letters without marks)
QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
N_MERGES = 344  # 256 + 344 = 600 ordinary tokens

CORPUS = (
    ("assistant " * 60)
    + ("assistant\n" * 60)
    + ("user\n" * 60)
    + ("None " * 12)
    + "The quick brown fox jumps over the lazy dog. Hello, world! Nice to meet you. " * 4
    + "She said that the weather in the north was better than we had thought, and the others "
    "agreed that there would be nothing else to do this morning. I'm sure they're here; we've "
    "seen it, you'll see, he'd know. Don't worry, it isn't that hard. Reading, writing and "
    "speaking are different things. Somewhere over the rainbow the train was waiting for the "
    "station master. Please read this sentence slowly and clearly, with a calm and warm voice. "
    * 3
    + "iPhone McDonald YouTube HelloWorld JavaScript eBay " * 12
    + "## Heading\n### Sub heading\n#### Deep\n# include <stdio.h>\n## ## ##\n#!/bin/sh\n" * 4
    + "你好，世界。今天天气很好，我们一起去公园吧。请用温柔的声音说话。我叫通义千问。" * 4
    + "中文语音合成测试：一二三四五六七八九十。" * 3
    + "こんにちは、世界。今日はいい天気ですね。ありがとうございます。" * 3
    + "안녕하세요, 세계. 오늘은 날씨가 좋네요. 감사합니다." * 3
    + "Привет, мир. Сегодня хорошая погода, и мы пойдём гулять в парк." * 3
    + "¿Cómo estás? El niño comió una manzana y bebió café. Über den Wolken, schöne Grüße. "
    "Où est la bibliothèque ? Ça va bien. Não é fácil, mas é possível. Perché no? "
    * 3
    + "नमस्ते दुनिया। مرحبا بالعالم. สวัสดีชาวโลก " * 3
    + "price: $12.50, 100%, 2024-01-31, +1 (555) 010-9999; a/b\\c {x} [y] <z> e=mc^2 ... ---\n\n" * 3
    + "    def f(x):\n        return x + 1\n\n\n\tprint(f(3))\n" * 4
    + "male, female, young adult, low pitch, american accent, whisper. 男，女，青年，四川话。" * 3
)


def bytes_to_unicode():
    """The usual printable stand-ins for the 256 byte values."""
    keep = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    table, extra = {}, 0
    for b in keep:
        table[b] = chr(b)
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + extra)
            extra += 1
    order = keep + [b for b in range(256) if b not in keep]
    return table, [table[b] for b in order]


def train():
    table, alphabet = bytes_to_unicode()
    words = collections.Counter(regex.findall(QWEN2_SPLIT, CORPUS))
    seqs = {w: [table[b] for b in w.encode("utf-8")] for w in words}
    merges = []
    for _ in range(N_MERGES):
        pairs = collections.Counter()
        for w, n in words.items():
            s = seqs[w]
            for a, b in zip(s, s[1:]):
                pairs[a, b] += n
        (a, b), _ = max(pairs.items(), key=lambda kv: (kv[1], -len(kv[0][0] + kv[0][1]), kv[0]))
        merges.append((a, b))
        for w, s in seqs.items():
            i, out = 0, []
            while i < len(s):
                if i + 1 < len(s) and s[i] == a and s[i + 1] == b:
                    out.append(a + b)
                    i += 2
                else:
                    out.append(s[i])
                    i += 1
            seqs[w] = out
    vocab = {t: i for i, t in enumerate(alphabet)}
    for a, b in merges:
        vocab.setdefault(a + b, len(vocab))
    assert len(vocab) == 256 + N_MERGES, len(vocab)
    assert "assistant" in vocab and "user" in vocab and "##" in vocab
    return vocab, merges


# Qwen3's 26 added tokens, in id order; second field = "special" flag
QWEN3_ADDED = [
    ("<|endoftext|>", True),
    ("<|im_start|>", True),
    ("<|im_end|>", True),
    ("<|object_ref_start|>", True),
    ("<|object_ref_end|>", True),
    ("<|box_start|>", True),
    ("<|box_end|>", True),
    ("<|quad_start|>", True),
    ("<|quad_end|>", True),
    ("<|vision_start|>", True),
    ("<|vision_end|>", True),
    ("<|vision_pad|>", True),
    ("<|image_pad|>", True),
    ("<|video_pad|>", True),
    ("<tool_call>", False),
    ("</tool_call>", False),
    ("<|fim_prefix|>", False),
    ("<|fim_middle|>", False),
    ("<|fim_suffix|>", False),
    ("<|fim_pad|>", False),
    ("<|repo_name|>", False),
    ("<|file_sep|>", False),
    ("<tool_response>", False),
    ("</tool_response>", False),
    ("<think>", False),
    ("</think>", False),
]
QWEN_TTS_ADDED = QWEN3_ADDED + [
    ("<|audio_start|>", True),
    ("<|audio_end|>", True),
    ("<tts_pad>", True),
    ("<tts_text_bos>", True),
    ("<tts_text_eod>", True),
    ("<tts_text_bos_single>", True),
    ("<|audio_pad|>", True),
]
OMNIVOICE_ADDED = QWEN3_ADDED + [
    (t, True)
    for t in (
        "<|denoise|>",
        "<|lang_start|>",
        "<|lang_end|>",
        "<|instruct_start|>",
        "<|instruct_end|>",
        "<|text_start|>",
        "<|text_end|>",
    )
]

# ~70 strings that exercise pre-tokenizer, normalizer, merges and special-token splitting
TRICKY = [
    "Hello, world!",
    " hello",
    "  hello",
    "hello ",
    "hello  ",
    "a  b   c    d",
    "\n",
    "\n\n",
    "\n\n\n",
    " \n \n",
    "a\nb",
    "a \n b",
    "a\r\nb",
    "a\tb",
    "\t\t",
    "line1\n\n  indented",
    "trailing space \n",
    "don't I'm we've you'll he'd they're it's",
    "DON'T I'M WE'VE",
    "I’m (curly)",
    "'s 'S 't",
    "HelloWorld iPhone McDonald XMLHttpRequest",
    "ALLCAPS lower MiXeD",
    "YouTube JavaScript eBay",
    "watch YouTube on my iPhone",
    "assistant",
    "Assistant assistants",
    "1234567890",
    "3.14159",
    "1,234.56",
    "2024-01-31T12:34:56Z",
    "½ ² ③ Ⅳ",
    "１２３ ＡＢＣ",
    "## heading",
    "# # ##",
    "#hashtag",
    "####",
    "#!/bin/sh",
    "C# F#",
    "你好，世界！",
    "你好 世界",
    "中文English混合123",
    "我叫通义千问，是阿里云的开源大模型。",
    "こんにちは世界",
    "カタカナ ｶﾀｶﾅ",
    "안녕하세요",
    "한글",  # second is precomposed
    "\u1112\u1161\u11ab\u1100\u1173\u11af",  # the same word, conjoining jamo (NFC composes it)
    "café",
    "cafe\u0301",
    "Ａ\u030a",
    "e\u0301\u0323",
    "नमस्ते दुनिया",
    "สวัสดีชาวโลก",
    "مرحبا بالعالم",
    "שָׁלוֹם",
    "Привет, мир",
    "Ελληνικά",
    "😀",
    "👨‍👩‍👧‍👦 family",
    "👍🏽",
    "🇩🇪🇫🇷",
    "❤️",
    "a😀b",
    "…—–“”‘’",
    "a\u00a0b",
    "a\u3000b",
    "a\u200bb",
    "\ufeffbom",
    "x\u0000y",
    "tab\u000bvt\u000cff",
    "a\u2028b",
    "\U00020000\U0002a6d6",
    "\U0001d54f\U0001d4ea",
    "\ue000",
    "\u0378",
    "<|im_start|>assistant\nhi<|im_end|>\n<|im_start|>assistant\n",
    "x<|im_end|>y",
    "<|im_end",
    "<|endoftext|>",
    "<tts_pad>",
    "<tts_text_bos>a<tts_text_eod>",
    "<think>hm</think>",
    "<tool_call>{}</tool_call>",
    "< |im_end| >",
    "<|IM_END|>",
    " <|im_end|> ",
    "<|text_start|>a<|text_end|>",
    "<|denoise|><|lang_start|>en<|lang_end|>",
    "[laughter] hi",
    "http://example.com/a?b=c&d=e#f",
    "user@example.com",
    "C:\\path\\file",
    "a/b//c",
    "!!!???...",
    "()[]{}<>",
    "$100 €50 £20 ¥1000",
    "100%",
    "e=mc^2",
    "    four spaces",
    "a" * 40,
    "the the the the",
    "",
    " ",
    "      ",
]
