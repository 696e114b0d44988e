"""What the official Qwen3-TTS is asked to say for dump_qwen.py."""

EN = "Hello, world! The weather is nice today."
ZH = "你好，世界。今天天气很好。"
SHORT = "hi."
SEE = "Hello there, see you soon!"
LONG = (
    "She said that the weather in the north was better than we had thought, and the others agreed. "
    "Reading, writing and speaking are different things; please read this sentence slowly."
)
REF_TEXT = "Nice to meet you."
REF_TEXT_LONG = (
    "The quick brown fox jumps over the lazy dog, and somewhere over the rainbow the train was "
    "waiting for the station master, who had nothing else to do this morning."
)
DESIGN = "A calm and warm female voice, low pitch, speaking slowly."
# (checkpoint, case name, mode, kwargs)
CASES = [
    ("Qwen3-TTS-12Hz-0.6B-Base", "auto_en_stream", "auto", dict(text=EN, language="auto", stream=True)),
    ("Qwen3-TTS-12Hz-0.6B-Base", "english_full", "auto", dict(text=EN, language="English", stream=False)),
    (
        "Qwen3-TTS-12Hz-0.6B-Base",
        "chinese_stream_norep",
        "auto",
        dict(text=ZH, language="chinese", stream=True, rep=1.0),
    ),
    ("Qwen3-TTS-12Hz-0.6B-Base", "short_text", "auto", dict(text=SHORT, language="english", stream=True)),
    (
        "Qwen3-TTS-12Hz-0.6B-Base",
        "long_run",
        "auto",
        dict(text=LONG, language="english", stream=True, n=97, lean=True),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-Base",
        "xvec_24k",
        "clone",
        dict(text=SEE, language="English", ref="ref_24k.wav", xvec=True),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-Base",
        "xvec_16k_full",
        "clone",
        dict(text=EN, language="auto", ref="ref_16k.wav", xvec=True, stream=False),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-Base",
        "icl_stream",
        "clone",
        dict(text=SEE, language="English", ref="ref_24k.wav", ref_text=REF_TEXT),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-Base",
        "icl_full",
        "clone",
        dict(text=EN, language="English", ref="ref_24k.wav", ref_text=REF_TEXT, stream=False),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-Base",
        "icl_stream_longtext",
        "clone",
        dict(text=LONG, language="auto", ref="ref_44k1_stereo.wav", ref_text=REF_TEXT_LONG),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-CustomVoice",
        "vivian_chinese",
        "custom",
        dict(text=ZH, language="Chinese", speaker="Vivian"),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-CustomVoice",
        "eric_auto_dialect",
        "custom",
        dict(text=ZH, language="auto", speaker="eric"),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-CustomVoice",
        "dylan_chinese_dialect",
        "custom",
        dict(text=ZH, language="chinese", speaker="Dylan"),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-CustomVoice",
        "eric_english_nodialect",
        "custom",
        dict(text=EN, language="english", speaker="eric", stream=True),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-CustomVoice",
        "instruct_ignored",
        "custom",
        dict(text=EN, language="english", speaker="ryan", instruct="Speak happily."),
    ),
    ("Qwen3-TTS-12Hz-1.7B-Base", "auto_en_full", "auto", dict(text=EN, language="auto", stream=False)),
    (
        "Qwen3-TTS-12Hz-1.7B-Base",
        "xvec",
        "clone",
        dict(text=ZH, language="chinese", ref="ref_24k.wav", xvec=True),
    ),
    (
        "Qwen3-TTS-12Hz-1.7B-Base",
        "icl",
        "clone",
        dict(text=EN, language="auto", ref="ref_24k.wav", ref_text=REF_TEXT),
    ),
    (
        "Qwen3-TTS-12Hz-1.7B-CustomVoice",
        "serena_plain",
        "custom",
        dict(text=EN, language="english", speaker="serena"),
    ),
    (
        "Qwen3-TTS-12Hz-1.7B-CustomVoice",
        "aiden_instruct",
        "custom",
        dict(text=EN, language="auto", speaker="Aiden", instruct="Speak happily and slowly."),
    ),
    (
        "Qwen3-TTS-12Hz-1.7B-CustomVoice",
        "eric_dialect_instruct",
        "custom",
        dict(text=ZH, language="Auto", speaker="Eric", instruct="请用温柔的声音说话。"),
    ),
    (
        "Qwen3-TTS-12Hz-1.7B-VoiceDesign",
        "design_en",
        "design",
        dict(text=EN, language="english", instruct=DESIGN),
    ),
    (
        "Qwen3-TTS-12Hz-1.7B-VoiceDesign",
        "design_zh_stream",
        "design",
        dict(text=ZH, language="auto", instruct="女，青年，温柔的声音。", stream=True),
    ),
    (
        "Qwen3-TTS-12Hz-1.7B-VoiceDesign",
        "design_no_instruct",
        "design",
        dict(text=EN, language="auto", instruct=""),
    ),
]
SAMPLED = [
    ("default", EN, {}),
    (
        "topp",
        EN,
        dict(
            temperature=1.3,
            top_k=20,
            top_p=0.8,
            repetition_penalty=1.3,
            subtalker_temperature=0.7,
            subtalker_top_k=10,
            subtalker_top_p=0.6,
        ),
    ),
    (
        "notopk",
        ZH,
        dict(
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            repetition_penalty=1.0,
            subtalker_temperature=1.0,
            subtalker_top_k=0,
            subtalker_top_p=0.9,
        ),
    ),
]
"""Name, text and options of what is sampled."""
