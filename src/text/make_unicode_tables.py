#!/usr/bin/env python3
"""Writes unicode_tables.inc from Python's own copy of the Unicode character database: make_unicode_tables.py > unicode_tables.inc"""
import unicodedata

CODE_POINTS = [c for c in range(0x80, 0x110000) if not 0xD800 <= c <= 0xDFFF]


def ranges(wanted):
    """[first, last] of the code points whose category is one of those wanted."""
    found = []
    for c in CODE_POINTS:
        if unicodedata.category(chr(c)) in wanted:
            if found and found[-1][1] == c - 1:
                found[-1][1] = c
            else:
                found.append([c, c])
    return found


def bare(c):
    """The canonical decomposition without nonspacing marks. Hangul syllables are left to arithmetic."""
    if 0xAC00 <= c <= 0xD7A3:
        return [c]
    return [ord(x) for x in unicodedata.normalize("NFD", chr(c)) if unicodedata.category(x) != "Mn"]


def lower_runs():
    """[first, last, step, to - from] over the code points with a small letter."""
    runs = []
    for c in CODE_POINTS:
        to = ord(chr(c).lower()[0])
        if to == c:
            continue
        last = next((r for r in reversed(runs[-2:]) if r[3] == to - c and c - r[1] in (1, 2)
                     and (r[0] == r[1] or r[2] == c - r[1])), None)
        if last:
            last[1], last[2] = c, c - last[1]
        else:
            runs.append([c, c, 1, to - c])
    return runs


def emit(declaration, rows):
    print(f"constexpr {declaration} = {{")
    line = ""
    for row in rows:
        cell = "{" + ", ".join(row) + "},"
        if line and len(line) + len(cell) + 1 > 106:
            print("    " + line)
            line = ""
        line += (" " if line else "") + cell
    print(f"    {line}\n}};")


def main():
    print(f"// Written by make_unicode_tables.py from Unicode {unicodedata.unidata_version}; ASCII is left out.")
    print("// clang-format off")
    emit("Range kPunctuation[]", [[f"0x{a:X}", f"0x{b:X}"] for a, b in ranges({"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"})])
    emit("Range kControls[]", [[f"0x{a:X}", f"0x{b:X}"] for a, b in ranges({"Cc", "Cf", "Co"})])
    emit("Range kMarks[]", [[f"0x{a:X}", f"0x{b:X}"] for a, b in ranges({"Mn"})])
    stripped = [(c, bare(c)) for c in CODE_POINTS if unicodedata.category(chr(c)) != "Mn" and bare(c) != [c]]
    emit("BareForm kBareForms[]", [[f"0x{c:X}", "{" + ", ".join(f"0x{x:X}" for x in to) + "}"] for c, to in stripped])
    emit("LowerRun kLowerRuns[]", [[f"0x{a:X}", f"0x{b:X}", str(step), str(delta)] for a, b, step, delta in lower_runs()])
    print("// clang-format on")


if __name__ == "__main__":
    main()
