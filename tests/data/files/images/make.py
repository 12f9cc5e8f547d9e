#!/usr/bin/env python3
"""Writes the files beside it: small images of every kind, and expected.json, what Pillow reads in them.

usage: python3 tests/data/files/images/make.py          needs the package pillow
"""
import json
import os
import struct
import zlib

from PIL import Image

FOLDER = os.path.dirname(os.path.abspath(__file__))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png(name, width, height, bits, colour, samples, interlace=0, extra=b"", level=9):
    """samples(x, y) gives the samples of a pixel; by the PNG specification."""

    def rows(x0, y0, dx, dy):
        data = b""
        for y in range(y0, height, dy):
            text = "".join(f"{s:0{bits}b}" for x in range(x0, width, dx) for s in samples(x, y))
            if text:
                text += "0" * (-len(text) % 8)
                data += b"\0" + int(text, 2).to_bytes(len(text) // 8, "big")
        return data

    data = b"".join(rows(*p) for p in PASSES) if interlace else rows(0, 0, 1, 1)
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlace)
    content = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(data, level)) +
               chunk(b"IEND", b""))
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(content)


def noise(x, y, c, most):
    return (x * 73 + y * 151 + c * 97 + x * y * 11) % (most + 1)


def jpeg(name, mode, **options):
    image = Image.new(mode, (19, 13))
    bands = len(image.getbands())
    pixels = [tuple((40 * c + 9 * x + 7 * y) % 256 for c in range(bands)) for y in range(13) for x in range(19)]
    image.putdata(pixels if bands > 1 else [p[0] for p in pixels])
    image.save(os.path.join(FOLDER, name), "JPEG", **options)


def main():
    palette = b"".join(bytes(((i * 40) % 256, (i * 90) % 256, 255 - i)) for i in range(16))
    gray = {bits: (lambda x, y, m=2**bits - 1: [noise(x, y, 0, m)]) for bits in (1, 2, 4, 8, 16)}
    for bits, samples in gray.items():
        png(f"gray{bits}.png", 11, 7, bits, 0, samples)
        png(f"gray{bits}i.png", 11, 7, bits, 0, samples, interlace=1)
    for bits in (8, 16):
        most = 2**bits - 1
        for colour, channels, name in ((2, 3, "rgb"), (4, 2, "la"), (6, 4, "rgba")):
            png(f"{name}{bits}.png", 9, 5, bits, colour,
                lambda x, y, m=most, n=channels: [noise(x, y, c, m) for c in range(n)])
    png("rgb8i.png", 9, 5, 8, 2, lambda x, y: [noise(x, y, c, 255) for c in range(3)], interlace=1)
    for bits in (1, 2, 4, 8):
        png(f"palette{bits}.png", 13, 6, bits, 3, lambda x, y, m=min(2**bits, 16) - 1: [noise(x, y, 0, m)],
            extra=chunk(b"PLTE", palette[:3 * min(2**bits, 16)]))
    png("palette4t.png", 13, 6, 4, 3, lambda x, y: [noise(x, y, 0, 15)],
        extra=chunk(b"PLTE", palette) + chunk(b"tRNS", bytes(range(0, 160, 10))))
    png("text.png", 3, 2, 8, 0, lambda x, y: [x + y], extra=chunk(b"tEXt", b"Comment\0hello") +
        chunk(b"gAMA", struct.pack(">I", 100000)))
    # What Pillow refuses and need not be looked at: a text of 3 MB in 3 KB, and a profile that is none.
    png("bomb.png", 3, 2, 8, 0, lambda x, y: [x + y], extra=chunk(b"iCCP", b"name\0\0no profile") +
        chunk(b"zTXt", b"Bomb\0\0" + zlib.compress(b"\0" * 3000000)))
    png("flat.png", 2000, 2000, 1, 0, lambda x, y: [0])
    jpeg("gray.jpg", "L", quality=90)
    jpeg("rgb420.jpg", "RGB", quality=85)
    jpeg("rgb444.jpg", "RGB", quality=95, subsampling=0)
    jpeg("progressive.jpg", "RGB", quality=80, progressive=True)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees, which is not done
    jpeg("turned.jpg", "RGB", exif=exif)
    jpeg("cmyk.jpg", "CMYK")
    expected = {}
    for name in sorted(os.listdir(FOLDER)):
        if not name.endswith((".png", ".jpg")) or name in ("bomb.png", "cmyk.jpg", "flat.png"):
            continue
        image = Image.open(os.path.join(FOLDER, name))
        size = [image.height, image.width]
        entry = {"size": size}
        if image.mode.startswith("I"):  # 16-bit gray, which Pillow does not convert: the upper bytes
            upper = bytes(value >> 8 for value in image.getdata())
            image = Image.frombytes("L", image.size, upper)
        unchanged = {"1": "L", "P": "RGBA" if "transparency" in image.info else "RGB"}.get(image.mode, image.mode)
        if name == "la16.png":  # which Pillow takes for RGBA
            unchanged = "LA"
        for mode, to in (("unchanged", unchanged), ("gray", "L"), ("rgb", "RGB"), ("rgba", "RGBA")):
            # Alpha is left out, of gray by way of RGB, which is how Pillow converts palettes.
            source = image if to != "L" or image.mode in ("L", "RGB") else image.convert("RGB")
            converted = source.convert(to)
            planes = [list(band.getdata()) for band in converted.split()]
            entry[mode] = {"channels": len(planes), "values": bytes(sum(planes, [])).hex()}
        expected[name] = entry
    with open(os.path.join(FOLDER, "expected.json"), "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in expected.items()) +
                   "\n}\n")
    print(len(expected), "images")


if __name__ == "__main__":
    main()
