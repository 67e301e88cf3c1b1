"""Changes that accidents and attackers make to bytes and numbers."""

import gzip

import numpy as np

TOKENS = (
    b"\n|\r|\r\n|\t|,|\"|'| |:|#|\0|\xff|\xef|nan|inf|-1|0|1e309|99999999999999999999|2147483648|"
    b"0x1p3|qid:|null|[[[[|{}|../|\x1f\x8b"
).split(b"|")
NUMBERS = [0, 1, -1, 2, 99, 2**31 - 1, 2**31, -(2**31), 2**32 + 3, 2**62, 2**63 - 1, -(2**63)]


def mutate(rng: np.random.Generator, content: bytes) -> bytes:
    """Change some bytes: overwrite, insert, remove, repeat, cut off, or pack."""
    for _ in range(int(rng.integers(1, 6))):
        n = len(content)
        a, b = sorted(int(k) for k in rng.integers(0, n + 1, 2))
        kind = int(rng.integers(8))
        token = TOKENS[rng.integers(len(TOKENS))]
        if kind == 0:
            content = content[:a] + bytes([int(rng.integers(256))]) + content[a + 1 :]
        elif kind == 1 and n:
            content = (
                content[:a]
                + bytes([content[a % n] ^ (1 << int(rng.integers(8)))])
                + content[a + 1 :]
            )
        elif kind == 2:
            content = content[:a] + token + content[a:]
        elif kind == 3:
            content = content[:a] + token + content[a + len(token) :]
        elif kind == 4:
            content = content[:a] + content[min(b, a + 40) :]
        elif kind == 5:
            content = content[:b] + content[a:b][:200] + content[b:]
        elif kind == 6 and rng.random() < 0.2:
            content = content[:a]
        elif kind == 7 and rng.random() < 0.1:
            content = gzip.compress(content, 1, mtime=0)
    return content


def number(rng: np.random.Generator) -> int:
    """An integer that programs get wrong, or a small one."""
    return NUMBERS[rng.integers(len(NUMBERS))] if rng.random() < 0.7 else int(rng.integers(-3, 40))
