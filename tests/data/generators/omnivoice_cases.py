"""What dump_omnivoice.py has the official OmniVoice say, and the texts that dump_omnivoice_text.py measures."""

EN = "Hello, world! The weather is nice today."
ZH = "你好，世界。今天天气很好。"
LONG_EN = (
    "Mr. Smith went to the station. The train was late, e.g. by an hour; nobody knew why! "
    '"Is this it?" he asked. They waited... and waited. Dr. Jones arrived at 3.14 p.m. with a book.'
)
LONG_ZH = "今天天气很好，我们一起去公园吧。你好，世界！请用温柔的声音说话；我叫通义千问。“好的。”他说。"
CASES = [
    ("auto_en", dict(text=EN), dict(num_step=8)),
    ("auto_zh_lang", dict(text=ZH, language="Chinese"), dict(num_step=8)),
    ("auto_default_steps", dict(text="Nice to meet you.", language="en"), dict()),
    (
        "design_en",
        dict(text=EN, language="en", instruct="Female, low pitch，british accent", speed=1.3),
        dict(num_step=8),
    ),
    ("design_zh", dict(text=ZH, instruct="male, young adult"), dict(num_step=8)),
    ("nonverbal", dict(text="[laughter] Well, that is (nice).\n  Yes [sigh]"), dict(num_step=5)),
    ("duration", dict(text=EN, duration=1.0), dict(num_step=6)),
    ("speed", dict(text=EN, speed=1.6), dict(num_step=6)),
    ("no_guidance", dict(text=EN, duration=0.8), dict(num_step=6, guidance_scale=0.0)),
    (
        "no_penalty_shift1",
        dict(text=EN, duration=0.8),
        dict(num_step=6, layer_penalty_factor=0.0, t_shift=1.0),
    ),
    (
        "raw_output",
        dict(text=EN, duration=0.8),
        dict(num_step=6, postprocess_output=False, pad_duration=0.0, fade_duration=0.0),
    ),
    (
        "clone",
        dict(text="hi there.", language="English", ref="ref_24k.wav", ref_text="Nice to meet you"),
        dict(num_step=8),
    ),
    (
        "clone_nodenoise_quiet",
        dict(text=ZH, ref="ref_quiet_16k.wav", ref_text="你好，世界", duration=0.9),
        dict(num_step=8, denoise=False),
    ),
    (
        "clone_noprep",
        dict(text=EN, ref="ref_24k.wav", ref_text="Nice to meet you", instruct="whisper", duration=0.9),
        dict(num_step=6, preprocess_prompt=False),
    ),
    (
        "chunked_auto",
        dict(text=LONG_EN),
        dict(num_step=6, audio_chunk_threshold=3.0, audio_chunk_duration=2.5),
    ),
    (
        "chunked_clone_zh",
        dict(text=LONG_ZH, ref="ref_24k.wav", ref_text="Nice to meet you."),
        dict(num_step=7, audio_chunk_threshold=3.0, audio_chunk_duration=5.0),
    ),
    (
        "sampled",
        dict(text=EN, duration=0.8),
        dict(num_step=6, position_temperature=5.0, class_temperature=0.0),
    ),
    (
        "sampled_class",
        dict(text=EN, duration=0.6),
        dict(num_step=4, position_temperature=5.0, class_temperature=1.0),
    ),
]


EAGER = ("auto_en", "auto_default_steps", "design_zh", "clone", "chunked_auto", "no_guidance")
DUR = [
    "",
    "a",
    "Hello",
    "Hello, world!",
    EN,
    LONG_EN,
    ZH,
    LONG_ZH,
    "你",
    "1234567890",
    "3.14",
    "½²Ⅳ",
    "   ",
    "\n\t",
    "こんにちは、世界。",
    "カタカナ",
    "안녕하세요",
    "नमस्ते दुनिया",
    "বাংলা ভাষা",
    "தமிழ்",
    "తెలుగు",
    "ไทย ภาษา",
    "ພາສາລາວ",
    "မြန်မာ",
    "ភាសាខ្មែរ",
    "مَرْحَبًا بِالْعَالَم",
    "مـــرحبا",
    "שָׁלוֹם עולם",
    "Привет, мир!",
    "Ελληνικά",
    "Հայերեն",
    "ქართული",
    "አማርኛ",
    "ꆈꌠꉙ",
    "བོད་སྐད",
    "Chào thế giới",
    "Hello 🌍! fun 🎉",
    "𠀀𪛖 ext",
    "𝕏𝓪",
    "ＦＵＬＬ　ｗｉｄｔｈ",
    "ᏣᎳᎩ",
    "ᠮᠣᠩᠭᠣᠯ",
    "cafe\u0301",
    "a\u200bb\u00a0c\u3000d",
    "ㄅㄆㄇ",
    "ㄱㄴ",
    "\ue000\u0378",
    "€£¥$+<=>",
    "_-—…",
    "ꦗꦮ",
    "ᮞᮥᮔ᮪ᮓ",
    "ⴰⵎⴰⵣⵉⵖ",
    "x" * 60,
    "今天" * 30,
]
