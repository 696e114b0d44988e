# ruff: noqa
"""What OmniVoice makes of texts: durations, chunks, languages, voice design, schedules, tokens."""

from omnivoice_official import O  # first: it prepares the other imports

import json

from omnivoice.utils import text as TX
from omnivoice.utils.duration import RuleDurationEstimator

import tiny_bpe
from omnivoice_cases import DUR, EN, LONG_EN, LONG_ZH, ZH


def dump_text(m, golden):
    d = RuleDurationEstimator()
    j = {}
    j["duration"] = [
        dict(
            text=s,
            weight=d.calculate_total_weight(s),
            frames=m._estimate_target_tokens(s, None, None),
            frames_speed_1_5=m._estimate_target_tokens(s, None, None, speed=1.5),
            frames_ref=m._estimate_target_tokens(s, "Nice to meet you.", 60),
            frames_ref_zh=m._estimate_target_tokens(s, "你好，世界。", 33),
            raw=d.estimate_duration(s, "Nice to meet you.", 25),
            raw_nolow=d.estimate_duration(s, "Nice to meet you.", 25, low_threshold=None),
        )
        for s in DUR
    ]
    texts = [
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
    j["chunks"] = [
        dict(text=s, chunk_len=n, min_chunk_len=k, out=TX.chunk_text_punctuation(s, n, k))
        for s in texts
        for n, k in ((10, 3), (25, 3), (60, 3), (15, None))
    ]
    j["add_punctuation"] = [
        dict(text=s, out=TX.add_punctuation(s))
        for s in [
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
    ]
    j["combine_text"] = [
        dict(text=s, ref=r, out=O._combine_text(s, r))
        for s, r in [
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
    ]
    j["language"] = [
        dict(text=s, out=O._resolve_language(s))
        for s in [
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
    ]
    rows = []
    for s, zh in [
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
    ]:
        try:
            rows.append(dict(text=s, use_zh=zh, out=O._resolve_instruct(s, use_zh=zh)))
        except ValueError as e:
            rows.append(dict(text=s, use_zh=zh, error=str(e)))
    j["instruct"] = rows
    sched = []
    for T in (1, 2, 7, 20, 64, 375):
        for n in (1, 4, 8, 16, 32):
            for sh in (0.1, 0.5, 1.0):
                ts = O._get_time_steps(0.0, 1.0, n, sh).tolist()
                import math

                total = rem = T * 8
                row = []
                for s in range(n):
                    k = rem if s == n - 1 else min(math.ceil(total * (ts[s + 1] - ts[s])), rem)
                    row.append(int(k))
                    rem -= int(k)
                sched.append(dict(T=T, num_step=n, t_shift=sh, counts=row))
    j["schedule"] = sched
    j["timesteps_32_0.1"] = O._get_time_steps(0.0, 1.0, 32, 0.1).tolist()
    j["tokenizer"] = [
        dict(
            text=s,
            ids=m.text_tokenizer(s).input_ids,
            nonverbal=O._tokenize_with_nonverbal_tags(s, m.text_tokenizer)[0].tolist() if s else [],
        )
        for s in tiny_bpe.TRICKY
        + [
            "[laughter]",
            "a [sigh] b",
            "[laughter][laughter]",
            "[unknown] tag",
            "哈哈[laughter]好",
            "[question-en]?",
            "<|text_start|>[laughter] hi<|text_end|>",
        ]
    ]
    (golden / "omnivoice_text.json").write_text(json.dumps(j, ensure_ascii=True, indent=0), encoding="utf-8")
    print("text:", {k: len(v) for k, v in j.items()})
