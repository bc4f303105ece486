"""Compiled readers of what every line is made of: fixed text, digits, decimals, rooms."""

from __future__ import annotations

import numpy as np
from numba import njit

from ingest.bulk.kernel.memory import byte, bytes_below, inlined, word
from ingest.bulk.layout import WORD_BYTES

# numpy's error model: no check for division by zero, so that no call has to report an error.
compiled = njit(nogil=True, error_model="numpy")
_POWERS = np.array([10.0**k for k in range(23)])
_MAX_MANTISSA = 2**53
_ZEROS = np.uint64(0x3030303030303030)
_SIXES = np.uint64(0x0606060606060606)
_HIGH_HALVES = np.uint64(0xF0F0F0F0F0F0F0F0)
_EVEN_PAIRS = np.uint64(0x000000FF000000FF)


def text(text):
    """Pack text for ``starts``: words, each followed by the mask of its bytes that count."""
    assert b"\n" not in text
    assert b"\0" not in text
    size = -len(text) % WORD_BYTES + len(text)
    words = np.frombuffer(text.ljust(size, b"\0"), dtype="<u8").astype(np.uint64)
    masks = np.frombuffer((b"\xff" * len(text)).ljust(size, b"\0"), dtype="<u8").astype(np.uint64)
    return np.stack((words, masks), axis=1).reshape(-1)


@inlined
def starts(data, at, text):
    """Whether the text stands here, which is then inside the line: it has no line end."""
    for i in range(len(text) >> 1):
        found = word(data, at + WORD_BYTES * i)
        if found & text[np.uint64(2 * i + 1)] != text[np.uint64(2 * i)]:
            return False
    return True


@inlined
def stands(data, at, end, code):
    """Whether the byte stands here in the line."""
    return at < end and byte(data, at) == code


@inlined
def read_digits(data, at, end):
    """Read up to 18 decimal digits; (value, position after, count); count 0 if there are none."""
    # Eight bytes at once: how many digits a number has is what a processor predicts worst.
    digits = word(data, at) ^ _ZEROS
    others = ((digits + _SIXES) | digits) & _HIGH_HALVES
    count = bytes_below(others) if others else np.int64(WORD_BYTES)
    if count == 0:
        return np.int64(0), at, count
    value = _eight_digits(digits << np.uint64(8 * (WORD_BYTES - count)))
    at += count
    if count == WORD_BYTES:
        last = min(end, at + 10)
        while at < last:
            d = byte(data, at) - 48
            if d < 0 or d > 9:
                break
            value = value * 10 + d
            at += 1
            count += 1
    return value, at, count


@inlined
def _eight_digits(digits):
    """The number whose digits, 0 to 9, are the bytes of a word: added up in pairs, then fours."""
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    low = (pairs & _EVEN_PAIRS) * np.uint64(100 + (1000000 << 32))
    high = ((pairs >> np.uint64(16)) & _EVEN_PAIRS) * np.uint64(1 + (10000 << 32))
    return np.int64((low + high) >> np.uint64(32))


@inlined
def read_room(data, at, end):
    """Read up to 19 digits; ok is False where there are more, or none, or more than 63 bits."""
    value, after, count = read_digits(data, at, end)
    if count == 18 and after < end:
        d = byte(data, after) - 48
        if 0 <= d <= 9:
            if value > 922337203685477580 or (value == 922337203685477580 and d > 7):
                return value, after, False
            value = value * 10 + d
            after += 1
            if after < end and 48 <= byte(data, after) <= 57:
                return value, after, False
    return value, after, count > 0


@inlined
def read_decimal(data, at, end):
    """Read ``123`` or ``-123.45``; exact because mantissa and power are exact doubles."""
    sign = 1.0
    if stands(data, at, end, 45):
        sign = -1.0
        at += 1
    whole, after, count = read_digits(data, at, end)
    if count == 0 or count > 15:
        return 0.0, at, False
    if not stands(data, after, end, 46):
        return sign * whole, after, True
    fraction, last, places = read_digits(data, after + 1, end)
    if places == 0 or count + places > 15:
        return 0.0, at, False
    scale = _POWERS[np.uint64(places)]
    mantissa = whole * np.int64(scale) + fraction
    if mantissa > _MAX_MANTISSA:
        return 0.0, at, False
    return sign * (mantissa / scale), last, True
