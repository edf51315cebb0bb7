"""What the Python client programs share: the contract of e2e/README.md, the records of the scenarios, and their checks.

Nothing here talks to a broker; each client program does that in its own client's words.
"""

import json
import os
import socket
import sys
import time
import traceback

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
END = b"end"
DEADLINE_SECONDS = 30


# Set when the broker takes clients over SASL_SSL only, with SCRAM-SHA-512.
USER, PASSWORD, CA = (os.environ.get(f"E2E_{name}") for name in ("USER", "PASSWORD", "CA"))


def librdkafka_security(mechanism="SCRAM-SHA-512"):
    """The settings of librdkafka for that, by its names."""
    if not USER:
        return {}
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": CA,
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }


def python_security():
    """The same for the clients that are written in Python."""
    if not USER:
        return {}
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }


class Cannot(Exception):
    """The client lacks what the scenario needs."""


class Failed(Exception):
    """An assertion of the scenario does not hold."""


def check(holds, message):
    if not holds:
        raise Failed(message)


def equal(seen, wanted, what):
    check(seen == wanted, f"{what}: saw {seen!r}, not {wanted!r}")


def until(what, probe, pause=0.02, seconds=DEADLINE_SECONDS):
    """Calls `probe` until it returns something true, and returns that; a probe that waits by itself needs no pause."""
    deadline = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(pause)


def log(*words):
    print(*words, file=sys.stderr, flush=True)


def main(scenarios):
    """Runs the scenario named on the command line; `scenarios` maps names to functions of (bootstrap, run_id).

    A function returns the detail of its pass, or nothing.
    """
    bootstrap, scenario, run_id = sys.argv[1:4]
    try:
        if scenario not in scenarios:
            raise Cannot("unknown scenario")
        result, detail = "pass", scenarios[scenario](bootstrap, run_id) or ""
    except Cannot as reason:
        result, detail = "cannot", str(reason)
    except Exception as error:  # whatever a client throws, the scenario has failed
        traceback.print_exc()
        result, detail = "fail", f"{type(error).__name__}: {error}".splitlines()[0]
    print(json.dumps({"result": result, "detail": detail}), flush=True)
    sys.stderr.flush()
    # Client threads that still retry must not keep the process alive.
    os._exit(1 if result == "fail" else 0)


def proxy(word):
    """Sends a word to the runner's proxy and returns the number in its answer."""
    host, port = os.environ["E2E_PROXY_CONTROL"].split(":")
    with socket.create_connection((host, int(port)), timeout=10) as control:
        control.sendall(word.encode() + b"\n")
        answer = control.makefile().readline().strip()
    log("proxy:", word, "->", answer)
    return int(answer.split()[1])


class LostAnswer:
    """Arms the proxy; `check` then asserts that an answer was really swallowed."""

    def __init__(self):
        self.before = proxy("hits")
        check(proxy("lose") >= 1, "no connection to lose an answer on")

    def check(self):
        check(proxy("hits") > self.before, "no answer was lost")


# produce-consume-*


class Sample:
    """Record `i` of the produce-consume scenarios."""

    COUNT = 300
    PARTITIONS = 3

    def __init__(self, i, start_ms):
        self.partition = i % 3
        self.offset = i // 3
        self.key = None if i % 10 == 0 else b"key-%d" % i
        self.value = b"value-%d-" % i + b"x" * 100
        if i % 10 in (1, 2):
            self.value = None if i % 10 == 1 else b""
        self.headers = [("n", b"%d" % i), ("bin", b"\x00\xff\x80")]
        self.timestamp = start_ms + i


def samples():
    start_ms = int(time.time() * 1000)
    return [Sample(i, start_ms) for i in range(Sample.COUNT)]


def check_acks(wanted, acks):
    """`acks`: (partition, offset) in the order of `wanted`."""
    equal(len(acks), len(wanted), "acknowledged records")
    for i, (sample, ack) in enumerate(zip(wanted, acks)):
        equal(tuple(ack), (sample.partition, sample.offset), f"acknowledgement of record {i}")


def check_samples(wanted, records):
    """`records`: (partition, offset, key, value, headers, timestamp) in any order across partitions."""
    equal(len(records), len(wanted), "records read")
    for sample in wanted:
        mine = [r for r in records if r[0] == sample.partition]
        record = mine[sample.offset]
        seen = (*record[:4], [(k, v) for k, v in record[4]], record[5])
        fields = (sample.partition, sample.offset, sample.key, sample.value, sample.headers, sample.timestamp)
        equal(seen, fields, "record")


# reading to the end


def ended(by_partition, partitions):
    """Whether every partition's list of values ends with `end`."""
    return all(by_partition.get(p, [])[-1:] == [END] for p in range(partitions))


def check_reconnect(by_partition):
    """idempotent-reconnect: 300 values, each once, ascending."""
    for p in range(2):
        wanted = [b"%d" % i for i in range(p, 300, 2)] + [END]
        equal(by_partition[p], wanted, f"partition {p}")


def transaction_values(t, p):
    """txn-commit-abort: what transaction `t` writes to partition `p`."""
    return [b"%d-%d" % (t, i) for i in range(20) if i % 2 == p]


def check_transactions(committed, everything):
    for p in range(2):
        wanted = [v for t in (0, 2, 4) for v in transaction_values(t, p)] + [END]
        equal(committed[p], wanted, f"read_committed, partition {p}")
        wanted = [v for t in range(6) for v in transaction_values(t, p)] + [END]
        equal(everything[p], wanted, f"read_uncommitted, partition {p}")


def check_copied(committed, everything):
    """ctp: each input once for read_committed, the aborted round visible for read_uncommitted."""
    for p in range(2):
        wanted = sorted(b"out-%d" % i for i in range(p, 200, 2))
        equal(sorted(committed[p][:-1]), wanted, f"output partition {p}")
    count = sum(len(values) - 1 for values in everything.values())
    check(count > 200, f"the aborted round left nothing: {count} records")
    log(count - 200, "records of the aborted round stayed hidden")
