#!/usr/bin/env python3
# ruff: noqa
"""Full-range Unicode behaviour of the reference text front ends:   dump_unicode.py GOLDEN_DIR

Writes golden/unicode.json. Every table is a list of runs [first code point, value]; surrogates count as
"-". Run in the OmniVoice environment.
"""

import hashlib
import json
import sys
import unicodedata
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
import cpu_shims

cpu_shims.tolerate_torchaudio()
import tokenizers  # noqa: E402
from omnivoice.utils.duration import RuleDurationEstimator  # noqa: E402
from omnivoice.utils.lang_map import LANG_NAME_TO_ID  # noqa: E402
from tokenizers import Regex, normalizers, pre_tokenizers  # noqa: E402

ALL = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def runs(value_of):
    out, last = [], object()
    for c in range(0x110000):
        v = "-" if 0xD800 <= c <= 0xDFFF else value_of(c)
        if v != last:
            out.append([c, v])
            last = v
    return out


def matches(pattern):
    """code points the tokenizers regex engine puts in a class"""
    split = pre_tokenizers.Split(Regex(pattern), behavior="removed")
    hit = set()
    for i in range(0, len(ALL), 4096):
        block = ALL[i : i + 4096]
        s = "".join(map(chr, block))
        left = split.pre_tokenize_str(s)  # what is left after removing the matches
        keep = set()
        for _, (a, b) in left:
            keep.update(block[a:b])
        hit.update(set(block) - keep)
    return hit


def main():
    golden = Path(sys.argv[1])
    letter, number, space = matches(r"\p{L}"), matches(r"\p{N}"), matches(r"\s")
    assert not letter & number and not letter & space
    est = RuleDurationEstimator()
    nfc = normalizers.NFC()
    single, pairs = [], []
    for c in ALL:
        n = nfc.normalize_str(chr(c))
        if n != chr(c):
            single.append([c, [ord(x) for x in n]])
        d = unicodedata.decomposition(chr(c))
        if d and not d.startswith("<") and len(d.split()) == 2:
            a, b = (int(x, 16) for x in d.split())
            pairs.append([a, b, [ord(x) for x in nfc.normalize_str(chr(a) + chr(b))]])
    # canonical reordering: ask the normalizer which of two marks it puts first
    marks = [
        0x0301,
        0x0323,
        0x0327,
        0x0345,
        0x05B0,
        0x05BC,
        0x064B,
        0x0651,
        0x093C,
        0x094D,
        0x0E38,
        0x0F71,
        0x302A,
        0x3099,
        0x1D165,
        0x0334,
    ]
    order = [
        [a, b, [ord(x) for x in nfc.normalize_str("q" + chr(a) + chr(b))[1:]]]
        for a in marks
        for b in marks
        if a != b
    ]
    table = "\n".join(f"{k}\t{v}" for k, v in sorted(LANG_NAME_TO_ID.items()))
    out = dict(
        tokenizers=tokenizers.__version__,
        python_unicodedata=unicodedata.unidata_version,
        regex_class_runs=runs(
            lambda c: "L" if c in letter else "N" if c in number else "s" if c in space else "o"
        ),
        duration_weight_runs=runs(lambda c: est._get_char_weight(chr(c))),
        nfc_single=single,
        nfc_pairs=pairs,
        nfc_mark_order=order,
        omnivoice_languages=dict(
            count=len(LANG_NAME_TO_ID),
            ids=len(set(LANG_NAME_TO_ID.values())),
            sha256_of_sorted_name_tab_id_lines=hashlib.sha256(table.encode()).hexdigest(),
        ),
    )
    (golden / "unicode.json").write_text(json.dumps(out, separators=(",", ":")), encoding="utf-8")
    print({k: len(v) if isinstance(v, (list, dict)) else v for k, v in out.items()})
    print(out["omnivoice_languages"], sorted(space))


if __name__ == "__main__":
    main()
