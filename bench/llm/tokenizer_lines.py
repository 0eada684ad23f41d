"""Writes tokenizers as folders of Hugging Face, 10,000 mixed lines, and what the Python package `tokenizers` makes of them.

    python3 tokenizer_lines.py DIR

DIR gets lines.json, and a folder for each tokenizer: tokenizer.json, ids.json with the tokens of each line, and
decoded.json with the texts of those tokens where decoding does not tidy up.
"""

import json
import random
import sys
from pathlib import Path

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

LINES = 10_000
SPECIALS = ["<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
WORDS = """the of and to in is that it's they're I'll WE'VE don't star pole north sky night light telescope observation
measure Hello WORLD camelCase snake_case HTTPServer x1 v2.0 3.14159 1,234,567 0xFF 1e-9 2026-11-18 für Straße naïve
café e\u0301te\u0301 Ångström Привет мир звезда こんにちは 世界 星 漢字かな交じり 안녕하세요 שלום مرحبا नमस्ते สวัสดี ελληνικά
\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2603\ufe0f ½ ² Ⅷ ﬁ \u00a0 \u3000 \u200b \ufeff \u0301 {"key": [1,2]} if(x==0){return;} #include
<stdio.h> http://a.b/c?d=e&f=g user@host.org ... !!! ?! -- — “quoted” (paren) [x] $5.00 100% a/b\\c ~ ` ^ | \x07 \x7f""".split()
BETWEEN = [" ", " ", " ", " ", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "", " \n ", "\u00a0", ", ", ". "]


def line(draw):
    parts = []
    for _ in range(draw.randrange(1, 24)):
        kind = draw.random()
        if kind < 0.75:
            word = draw.choice(WORDS)
            word = draw.choice([word, word, word.lower(), word.upper(), word.title(), word[:draw.randrange(1, 9)]])
        elif kind < 0.83:
            word = str(draw.randrange(10 ** draw.randrange(1, 12)))
        elif kind < 0.88:
            word = draw.choice(SPECIALS)
        else:
            ranges = [(32, 127), (160, 0x250), (0x370, 0x600), (0x900, 0xe00), (0x3040, 0x3100), (0x4e00, 0x9fff),
                      (0x1f300, 0x1f700)]
            low, high = draw.choice(ranges)
            word = "".join(chr(draw.randrange(low, high)) for _ in range(draw.randrange(1, 6)))
        parts += [word, draw.choice(BETWEEN)]
    return "".join(parts)


def byte_level(pattern=None, normalizer=None, ignore_merges=False):
    made = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        made.normalizer = normalizer
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    split = pattern and pre_tokenizers.Split(Regex(pattern), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([split, plain]) if split else plain
    made.decoder = decoders.ByteLevel()
    return made, trainers.BpeTrainer(vocab_size=3000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                     special_tokens=SPECIALS, show_progress=False)


def sentencepiece():
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                      decoders.Strip(" ", 1, 0)])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    return made, trainers.BpeTrainer(vocab_size=2500, special_tokens=SPECIALS + bytes_, limit_alphabet=300,
                                     max_token_length=16, show_progress=False)


def unigram():
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    return made, trainers.UnigramTrainer(vocab_size=20000, special_tokens=SPECIALS, unk_token="<unk>",
                                         show_progress=False)


def wordpiece():
    made = Tokenizer(models.WordPiece(unk_token="<unk>"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    return made, trainers.WordPieceTrainer(vocab_size=2500, special_tokens=SPECIALS, show_progress=False)


KINDS = {
    "gpt2": (byte_level, True),
    "llama3": (lambda: byte_level(LLAMA3, ignore_merges=True), True),
    "qwen2": (lambda: byte_level(LLAMA3.replace("{1,3}", ""), normalizers.NFC()), True),
    "llama2": (sentencepiece, True),
    "unigram": (unigram, False),
    "wordpiece": (wordpiece, False),
}


def main():
    folder, draw = Path(sys.argv[1]), random.Random(11)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [line(draw) for _ in range(LINES)]
    (folder / "lines.json").write_text(json.dumps(lines))
    for name, (make, decodes) in KINDS.items():
        made, trainer = make()
        made.train_from_iterator(lines[:2000], trainer)
        made.add_tokens([AddedToken("<tool>", special=False)])
        path = folder / name
        path.mkdir(exist_ok=True)
        made.save(str(path / "tokenizer.json"))
        # Scores are rounded in the file, which decides between segmentations that are equally good.
        made = Tokenizer.from_file(str(path / "tokenizer.json"))
        ids = [encoding.ids for encoding in made.encode_batch(lines, add_special_tokens=False)]
        (path / "ids.json").write_text(json.dumps(ids))
        if decodes:
            texts = [made.decode(tokens, skip_special_tokens=True) for tokens in ids]
            (path / "decoded.json").write_text(json.dumps(texts))
        print(f"{name:10} {made.get_vocab_size()} tokens, {sum(map(len, ids))} in {len(lines)} lines")


if __name__ == "__main__":
    main()
