"""Lists, dictionaries, strings, threads: prints what depends on every byte of them."""

import hashlib
import json
import threading
import zlib

STATE = 12345


def number():
    global STATE
    STATE = (STATE * 1103515245 + 12345) % (1 << 31)
    return STATE


rows = [{"id": i, "name": f"row {number() % 1000}", "value": number() / 7} for i in range(60_000)]
text = json.dumps(sorted(rows, key=lambda row: (row["name"], row["value"])))
print(hashlib.sha256(text.encode()).hexdigest())

packed = zlib.compress(text.encode(), 3)
print(len(packed), zlib.decompress(packed).decode() == text)

sums = {}


def count(part):
    sums[part] = sum(len(row["name"]) * (row["id"] % (part + 2)) for row in json.loads(text))


threads = [threading.Thread(target=count, args=(part,)) for part in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(sums.items()))
