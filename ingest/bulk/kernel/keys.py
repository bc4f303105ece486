"""Keys of a line: first that of the line before at the same place, then all of them."""

from __future__ import annotations

import numpy as np

from ingest.bulk.kernel.memory import inlined, word
from ingest.bulk.kernel.reading import text
from ingest.bulk.layout import WORD_BYTES

# Places in a line whose key is remembered.
PLACES = 32


def slots(names, aliases):
    return {key: names.index(column) for key, column in aliases.items()}


def key_table(entries):
    """Pack {key with its separator: number}: numbers, sizes, ends of the words, and the words.

    No key may begin another one.
    """
    assert not any(a != b and b.startswith(a) for a in entries for b in entries)
    words = [text(key) for key in entries]
    return (np.array(list(entries.values()), dtype=np.int64),
            np.array([len(key) for key in entries], dtype=np.int64),
            np.cumsum([0, *map(len, words)]).astype(np.int64), np.concatenate(words))


@inlined
def _is_key(data, at, ends, words, entry):
    # Unsigned indexes: signed ones are checked for counting from the end.
    last = np.uint64(ends[np.uint64(entry + 1)])
    i = np.uint64(ends[np.uint64(entry)])
    while i < last:
        if word(data, at) & words[i + np.uint64(1)] != words[i]:
            return False
        at += WORD_BYTES
        i += np.uint64(2)
    return True


@inlined
def find_key(data, at, ends, words, guess, place):
    """Entry of the key that stands here with its separator, -1 if none does.

    A line has the keys of the line before nearly always, so the one seen at this place is tried
    first.
    """
    place = np.uint64(min(place, PLACES - 1))
    entry = guess[place]
    if _is_key(data, at, ends, words, entry):
        return entry
    for other in range(len(ends) - 1):
        if _is_key(data, at, ends, words, other):
            guess[place] = other
            return other
    return -1
