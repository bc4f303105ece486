"""Compiled readers of what every line is made of: fixed text, digits, decimals, rooms."""

from __future__ import annotations

import numpy as np
from numba import njit

# numpy's error model: no check for division by zero, so that no call has to report an error.
compiled = njit(nogil=True, error_model="numpy")
_POWERS = np.array([10.0**k for k in range(23)])
_MAX_MANTISSA = 2**53


def text(text):
    return np.frombuffer(text, dtype=np.uint8).copy()


@compiled
def starts(data, at, end, text):
    if end - at < len(text):
        return False
    at = np.uint64(at)
    for i in range(np.uint64(len(text))):  # noqa: SIM110 - compiled
        if data[at + i] != text[i]:
            return False
    return True


@compiled
def read_digits(data, at, end):
    """Read decimal digits; (value, position after, count); count 0 if there are none."""
    value = np.int64(0)
    start = at
    last = min(end, at + 18)
    while at < last:
        d = np.int64(data[np.uint64(at)]) - 48
        if d < 0 or d > 9:
            break
        value = value * 10 + d
        at += 1
    return value, at, at - start


@compiled
def read_room(data, at, end):
    """Read up to 20 digits into 64 unsigned bits; ok is False on overflow."""
    value = np.uint64(0)
    start = at
    ten = np.uint64(10)
    while at < end:
        d = data[at] - 48
        if d < 0 or d > 9:
            break
        if value > np.uint64(1844674407370955161) or (
                value == np.uint64(1844674407370955161) and d > 5):
            return value, at, False
        value = value * ten + np.uint64(d)
        at += 1
    return value, at, at > start


@compiled
def read_decimal(data, at, end):
    """Read ``123`` or ``123.45``; exact because mantissa and power are exact doubles."""
    whole, after, count = read_digits(data, at, end)
    if count == 0:
        return 0.0, at, False
    if after < end and data[after] == 46:
        fraction, last, places = read_digits(data, after + 1, end)
        if places == 0 or count + places > 15:
            return 0.0, at, False
        scale = _POWERS[places]
        mantissa = whole * np.int64(scale) + fraction
        if mantissa > _MAX_MANTISSA:
            return 0.0, at, False
        return mantissa / scale, last, True
    if count > 15:
        return 0.0, at, False
    return float(whole), after, True
