#!/usr/bin/env python3
"""Writes the files beside it: a vocabulary of 500 merges, trained on a text of our own, and golden encodings.

The encodings are those of Hugging Face's tokenizers, compared with OpenAI's encoder.py, which is below.
usage: python3 tests/data/files/bpe/make.py          needs the packages tokenizers and regex
"""
import json
import os

import regex
from tokenizers import ByteLevelBPETokenizer

FOLDER = os.path.dirname(os.path.abspath(__file__))
TEXT = """The ship left the harbour before the sun rose, and the sailors sang of the islands they would see.
They didn't know that the captain, who'd sailed these waters for 30 years, had never been further than this.
"We'll be there by Monday," he said; "I'm sure of it. You've my word." Nobody replied: they're a quiet crew.
In 1987 the price of 100 barrels was $2,350.75, or about 1,900 euros. Today it's 10 times that.
def forward(self, x):
    for layer in self.layers:
        x = layer(x)    # the result
    return x.softmax(dim=-1)
for (int i = 0; i < n; ++i) { sum += values[i] * weights[i]; }
Übung macht den Meister, sagte der Müller und öffnete die Tür. Größe heißt nicht Stärke.
L'été dernier, nous étions à la plage; c'était déjà très agréable. Où êtes-vous allés?
El niño pequeño comió una manzana mañana por la mañana. ¿Qué pasó después?
Съешь же ещё этих мягких французских булок, да выпей чаю. Все люди рождаются свободными.
人人生而自由,在尊严和权利上一律平等。 私たちは学校で日本語を勉強しています。
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.
\u0915\u094b\u0908 \u092d\u0940 \u0906\u0926\u092e\u0940 \u0938\u092c \u0915\u0941\u091b. \u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd. \u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645.
\U0001F600 \U0001F600\U0001F680 and so on.
""" * 8

HARD = [
    "", " ", "  ", "   ", "\n", "\n\n", "\n\n\n", "\t", " \n", "\n ", " \n \n", "\r\n", "a", " a", "  a", "   a ", "a  ",
    "a\n", "a\n\nb", "a \n b", "hello world", "Hello, World!", "The ship left the harbour.",
    "don't", "DON'T", "we'll've", "I'm they're you've he'd it's can't", "'s", " 's", "''s", "x's's", "'S 'T 'RE",
    "'ll'd'm", "'", "''", "it 's", "\u2019s don\u2019t", "'r", "'v", "'l", "'re", "3's", "1234567890", " 12 345", "a1b2c3",
    "1,000.50", "\u00bd \u00b2\u00b3 \u2167 \u0663\u0664", "x=1;y=2", "a_b_c", "__init__", "foo(bar)[0] += {1: 'x'}",
    "    return x", "\tif (a) {\n\t\tb();\n\t}\n", "!!!???", "...", " ...", "-- ---", "a-b--c",
    "\u00dcbung macht den Meister", "na\u00efve caf\u00e9", "cafe\u0301", "\u0421\u044a\u0435\u0448\u044c \u0436\u0435 \u0435\u0449\u0451",
    "\u4eba\u4eba\u751f\u800c\u81ea\u7531", "\u79c1\u305f\u3061\u306f\u5b66\u6821\u3067", "\ubaa8\ub4e0 \uc778\uac04\uc740",
    "\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d\u0628\u0627", "\u0915\u094b\u0908 \u092d\u0940", "\u0e01\u0e32\u0e23",
    "\U0001F600", "\U0001F468\u200d\U0001F469\u200d\U0001F467", " \U0001F680\U0001F680 ", "\U0001D400\U0001D7CE", "\U00020000",
    "a\u00a0b", "a\u00a0\u00a0b", "a\u2003\u2003 b", "\u3000\u3000x", "a\u0085b", "\u2028\u2029", "\u200b\u200b", "\ufeffx",
    "a\x00b", "\x00", "\x1c\x1d", "\x1f x", "\x7f", "\ufffd", "\U0010ffff", "\u0378", "\U0001F468\U0001F3FD",
    "<|endoftext|>", "a<|endoftext|>b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ananananananan", "the" * 40,
    "sailors" + " " * 17 + "sang", "\n" * 9 + "x", " \t \t x \t ", "e\u0301" * 5, "\u0300\u0301", "1\u0301 2",
    "the The THE tHe", "$2,350.75%", "https://example.com/a?b=c&d=%20#e", "caf\u00e9's l'\u00e9t\u00e9", "\u00aa\u00ba",
]


def bytes_to_unicode():
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printed]
    return {**{b: chr(b) for b in printed}, **{b: chr(256 + i) for i, b in enumerate(others)}}


class Reference:
    """OpenAI's encoder.py."""

    pattern = regex.compile(r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")

    def __init__(self, vocab, merges):
        self.vocab = vocab
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.symbols = bytes_to_unicode()

    def merge(self, word):
        while len(word) > 1:
            best = min(zip(word, word[1:]), key=lambda pair: self.ranks.get(pair, float("inf")))
            if best not in self.ranks:
                break
            merged, i = [], 0
            while i < len(word):
                if i + 1 < len(word) and (word[i], word[i + 1]) == best:
                    merged.append(word[i] + word[i + 1])
                    i += 2
                else:
                    merged.append(word[i])
                    i += 1
            word = merged
        return word

    def encode(self, text):
        ids = []
        for word in self.pattern.findall(text):
            symbols = [self.symbols[b] for b in word.encode("utf-8")]
            ids += [self.vocab[token] for token in self.merge(symbols)]
        return ids


def main():
    tokenizer = ByteLevelBPETokenizer(add_prefix_space=False)
    tokenizer.train_from_iterator([TEXT], vocab_size=256 + 500, min_frequency=2)
    tokenizer.save_model(FOLDER)
    with open(os.path.join(FOLDER, "vocab.json"), encoding="utf-8") as file:
        vocab = json.load(file)
    vocab["<|endoftext|>"] = len(vocab)
    with open(os.path.join(FOLDER, "vocab.json"), "w", encoding="utf-8") as file:
        json.dump(vocab, file, ensure_ascii=True, indent=0, sort_keys=False)
        file.write("\n")
    with open(os.path.join(FOLDER, "merges.txt"), encoding="utf-8") as file:
        merges = [tuple(line.split(" ")) for line in file.read().split("\n")[1:-1]]
    reference = Reference(vocab, merges)
    golden = []
    for text in HARD:
        ids = tokenizer.encode(text).ids
        assert ids == reference.encode(text), repr(text)
        assert tokenizer.decode(ids) == text, repr(text)
        golden.append({"text": text, "ids": ids})
    with open(os.path.join(FOLDER, "golden.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(entry) for entry in golden) + "\n]\n")
    print(len(golden), "encodings,", len(merges), "merges")


if __name__ == "__main__":
    main()
