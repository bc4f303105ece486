"""Keys of a line: hashed when they are new, compared with those of the line before when not."""

from __future__ import annotations

import numpy as np

from ingest.bulk.kernel.reading import compiled
from ingest.bulk.layout import fnv

# Longest key that is looked up, and places in a line whose key is remembered.
_LONGEST_KEY = 32
PLACES = 32


def slots(names, aliases):
    return {key: names.index(column) for key, column in aliases.items()}


def key_table(entries, separator):
    """Pack {key: number} into arrays sorted by hash, the key's text with its separator beside."""
    pairs = sorted((fnv(key), number, key + separator) for key, number in entries.items())
    ends = np.cumsum([len(text) for _, _, text in pairs])
    return (np.array([h for h, _, _ in pairs], dtype=np.uint64),
            np.array([n for _, n, _ in pairs], dtype=np.int64),
            np.frombuffer(b"".join(text for _, _, text in pairs), dtype=np.uint8).copy(),
            np.concatenate((np.zeros(1, dtype=np.int64), ends)).astype(np.int64))


@compiled
def _is_key(data, at, end, texts, places, entry):
    # Unsigned indexes: signed ones are checked for counting from the end.
    start = np.uint64(places[entry])
    size = np.uint64(places[entry + 1]) - start
    if np.uint64(end - at) < size:
        return False
    at = np.uint64(at)
    for i in range(size):  # noqa: SIM110 - compiled
        if data[at + i] != texts[start + i]:
            return False
    return True


@compiled
def find_key(data, at, end, keys, texts, places, guess, place):
    """Entry of the key that stands here with its separator, -1 if none does.

    A line has the keys of the line before nearly always, so the one seen at this place is tried
    before any hash is computed.
    """
    place = min(place, PLACES - 1)
    entry = guess[place]
    if _is_key(data, at, end, texts, places, entry):
        return entry
    last = texts[len(texts) - 1]
    separator = 58 if last == 32 else last
    value = np.uint64(14695981039346656037)
    i = at
    while i < end and data[i] != separator:
        if i - at > _LONGEST_KEY:
            return -1
        value = (value ^ np.uint64(data[i])) * np.uint64(1099511628211)
        i += 1
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < value:
            low = middle + 1
        else:
            high = middle
    if low == len(keys) or keys[low] != value or not _is_key(data, at, end, texts, places, low):
        return -1
    guess[place] = low
    return low
