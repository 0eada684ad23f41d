"""Sentences that are made up, the same ones for the same seed: many lengths, scripts and marks."""

import random

WORDS = """the of and to a in is that for it was on are as with his they at be this from have or by one had not but
what all were when we there can an your which their said if do will each about how up out them then she many some so
these would other into has more her two like him see time could no make than first been its who now people my made
over did down only way find use may water long little very after words called just where most know river mountain
engine compiler harbour unreasonable photosynthesis quarterly telescope misunderstanding marmalade cathedral
algorithm temperature parliament hippopotamus electromagnetic bicycle orchestra vaccination 1984 3.14 42 x86-64
don't it's e-mail U.S. naïve café résumé façade Zürich jalapeño Ångström crème brûlée Dvořák São übermensch""".split()
FOREIGN = ["中文句子", "北京", "日本語のテキスト", "한국어", "Привет", "мир", "Ελλάδα", "שלום", "مرحبا", "हिन्दी", "Ünïcödé"]
EMOJI = ["🎉", "👩‍👩‍👧", "🇫🇷", "❤️", "😀😀", "🤷🏽‍♀️"]
MARKS = [",", ",", ";", ":", " –", "...", "!?", ' "', ")", " (", "/", "'s", " & ", "%", "$5"]


def sentences(count, seed=1, shortest=3, longest=200):
    """`count` sentences of `shortest` to `longest` words, short ones more often."""
    source = random.Random(seed)
    made = []
    for _ in range(count):
        words = int(shortest * (longest / shortest) ** source.random())
        text = []
        for place in range(words):
            kind = source.random()
            if kind < 0.03:
                word = source.choice(FOREIGN)
            elif kind < 0.05:
                word = source.choice(EMOJI)
            elif kind < 0.06:
                word = "".join(source.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(source.randint(2, 30)))
            else:
                word = source.choice(WORDS)
            if place == 0 or source.random() < 0.05:
                word = word.capitalize()
            if source.random() < 0.08:
                word += source.choice(MARKS)
            text.append(word)
        made.append(" ".join(text) + source.choice([".", ".", "?", "!", ""]))
    return made
