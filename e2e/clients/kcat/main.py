"""kcat: the scenarios of e2e/README.md, as far as a command-line tool can run them.

A kcat process is a producer (lines on stdin, `key:value`) or a consumer (JSON lines on stdout). It reads stdin in blocks of
1024 bytes, so lines that must leave at once are padded to that size; readers strip the padding. Topics are made by auto-creation
with the broker's default of 3 partitions; the partition follows from the key.
"""

import functools
import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "python"))

import contract
from contract import Cannot, LostAnswer, check, equal, log, until

BLOCK = 1024
KEYS = ["left", "right"]


class Kcat:
    """A running kcat whose output is collected."""

    def __init__(self, bootstrap, *words, **config):
        settings = [f"{name.replace('_', '.')}={value}" for name, value in config.items()]
        # Its librdkafka is older than 2.6.1, whose SCRAM neither Kafka 4 nor Ottla takes.
        settings += [f"{name}={value}" for name, value in contract.librdkafka_security("PLAIN").items()]
        command = ["kcat", "-b", bootstrap, *words, *(w for s in settings for w in ("-X", s))]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        self.out, self.err = [], []
        self.threads = [
            threading.Thread(target=self.collect, args=(self.process.stdout, self.out), daemon=True),
            threading.Thread(target=self.collect, args=(self.process.stderr, self.err), daemon=True),
        ]
        for thread in self.threads:
            thread.start()

    def collect(self, pipe, lines):
        for line in pipe:
            lines.append(line.decode().rstrip("\n"))
            if pipe is self.process.stderr:
                log(self.process.pid, lines[-1])

    def feed(self, *lines):
        """Writes `key:value` lines, padded so that kcat sends them at once."""
        self.process.stdin.write(b"".join(line.encode().ljust(BLOCK - 1) + b"\n" for line in lines))
        self.process.stdin.flush()

    def end(self, text=b""):
        """Closes stdin after the text, waits, and returns the exit code."""
        self.process.stdin.write(text)
        self.process.stdin.close()
        return self.wait()

    def stop(self, number=signal.SIGINT):
        """A signal first, then the end of stdin, which wakes a producer."""
        self.process.send_signal(number)
        return self.end()

    def wait(self):
        code = self.process.wait(contract.DEADLINE_SECONDS)
        for thread in self.threads:
            thread.join()
        return code


def produce(bootstrap, topic, lines, *words, **config):
    """One kcat that sends all lines and ends; with a transactional.id it commits."""
    text = "".join(line + "\n" for line in lines).encode()
    code = Kcat(bootstrap, "-P", "-t", topic, "-K:", *words, **config).end(text)
    equal(code, 0, "kcat's exit code")


def read(bootstrap, topic, isolation="read_committed"):
    """All records that such a reader sees, in order within each partition."""
    kcat = Kcat(bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J", isolation_level=isolation)
    equal(kcat.wait(), 0, "kcat's exit code")
    return [json.loads(line) for line in kcat.out]


def values(records, key=None):
    return [r["payload"].rstrip() for r in records if key in (None, r["key"])]


def make_topic(bootstrap, topic):
    """Asking for a topic's metadata creates it."""

    def there():
        kcat = Kcat(bootstrap, "-L", "-J", "-t", topic)
        equal(kcat.wait(), 0, "kcat's exit code")
        (found,) = json.loads("".join(kcat.out))["topics"]
        return len(found["partitions"]) == 3 and all(p["leader"] >= 0 for p in found["partitions"])

    until("the topic is created", there)


def produce_consume(codec, bootstrap, run_id):
    make_topic(bootstrap, run_id)
    wanted = contract.samples()
    for p in range(contract.Sample.PARTITIONS):
        lines = [
            f"{(s.key or b'').decode()}:{(s.value or b'').decode()}" for s in wanted if s.partition == p
        ]
        # -Z sends an empty key or value as null.
        produce(bootstrap, run_id, lines, "-Z", "-p", str(p), "-z", codec, "-H", "n=1", "-H", "bin=a b")
    records = read(bootstrap, run_id)
    equal(len(records), len(wanted), "records read")
    for s in wanted:
        record = [r for r in records if r["partition"] == s.partition][s.offset]
        key, value = s.key and s.key.decode(), (s.value and s.value.decode()) or None
        seen = (record["offset"], record["key"], record["payload"], record["headers"])
        equal(seen, (s.offset, key, value, ["n", "1", "bin", "a b"]), "record")
    return "without: headers for each record, empty values beside null ones, timestamps, acknowledgements"


def admin_calls(bootstrap, run_id):
    raise Cannot("kcat has no admin calls but listing metadata (-L) and offsets by time (-Q)")


class Member:
    """kcat -G; it commits by itself, every 100 ms and when it leaves."""

    def __init__(self, bootstrap, topic, **config):
        settings = {
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 100,
            "heartbeat_interval_ms": 500,
            "session_timeout_ms": 10000,
            **config,
        }
        self.kcat = Kcat(bootstrap, "-G", f"{topic}-g", "-u", "-J", topic, **settings)

    def rebalances(self):
        return [line for line in self.kcat.err if " rebalanced " in line]

    def assigned(self):
        """The partitions of the last rebalance line, which names them as `topic [0]`."""
        last = self.rebalances()[-1:]
        if not last or " assigned: " not in last[0]:
            return set()
        return {int(p) for p in re.findall(r"\[(\d+)\]", last[0].split(" assigned: ")[1])}

    def values(self):
        return values(json.loads(line) for line in list(self.kcat.out))

    def leave(self):
        equal(self.kcat.stop(signal.SIGTERM), 0, "kcat's exit code")


def shared(a, b):
    return a.assigned() and b.assigned() and sorted([*a.assigned(), *b.assigned()]) == [0, 1, 2]


def group_rebalance(bootstrap, run_id):
    make_topic(bootstrap, run_id)

    def numbers(start, stop):
        for p in range(3):
            lines = [f"k:{i}" for i in range(start, stop) if i % 3 == p]
            produce(bootstrap, run_id, lines, "-p", str(p))

    def read_so_far():
        return len(set(a.values()) | set(b.values() if b else []))

    b = None
    numbers(0, 80)
    a = Member(bootstrap, run_id)
    until("A has read 80 records", lambda: read_so_far() == 80)
    equal(a.assigned(), {0, 1, 2}, "A's partitions")
    b = Member(bootstrap, run_id)
    until("the partitions are shared", lambda: shared(a, b))
    numbers(80, 140)
    until("60 more", lambda: read_so_far() >= 140)
    a.leave()
    until("B has all", lambda: b.assigned() == {0, 1, 2})
    numbers(140, 200)
    until("all records", lambda: read_so_far() >= 200)
    b.leave()
    seen = [int(v) for v in a.values() + b.values()]
    equal(sorted(set(seen)), list(range(200)), "records read")
    last = Kcat(bootstrap, "-G", f"{run_id}-g", "-e", "-J", run_id, auto_offset_reset="earliest")
    equal((last.wait(), last.out), (0, []), "a third member's exit code and records")
    log(len(seen) - 200, "records read twice")
    return "3 partitions; at least once (commits on a timer); committed offsets seen by a third member that has nothing to read"


def static_member(bootstrap, run_id):
    make_topic(bootstrap, run_id)

    def member(name):
        return Member(bootstrap, run_id, group_instance_id=f"{run_id}-{name}")

    a, b = member("a"), member("b")
    until("the partitions are shared", lambda: shared(a, b))
    kept, rebalances = b.assigned(), len(a.rebalances())
    b.leave()
    b2 = member("b")
    until("B2 has partitions", b2.assigned)
    equal(b2.assigned(), kept, "B2's partitions")
    b3 = member("b")
    until("B3 has partitions", b3.assigned)
    equal(b3.assigned(), kept, "B3's partitions")
    until("B2 is fenced", lambda: "fenced" in "".join(b2.kcat.err))
    equal(len(a.rebalances()), rebalances, "A's rebalances")
    b2.kcat.process.kill()
    for member in (a, b3):
        member.leave()
    return "3 partitions"


def idempotent_reconnect(bootstrap, run_id):
    make_topic(bootstrap, run_id)
    # -E: go on when all brokers are down for a moment.
    settings = {"enable_idempotence": "true", "reconnect_backoff_ms": 50, "retry_backoff_ms": 50}
    kcat = Kcat(bootstrap, "-P", "-E", "-t", run_id, "-K:", **settings)

    def numbers(start, stop):
        kcat.feed(*[f"{KEYS[i % 2]}:{i}" for i in range(start, stop)])

    numbers(0, 100)
    until("100 records", lambda: len(read(bootstrap, run_id)) == 100)
    lost = LostAnswer()
    numbers(100, 200)
    until("200 records", lambda: len(read(bootstrap, run_id)) >= 200)
    lost.check()
    numbers(200, 250)
    contract.proxy("drop")
    numbers(250, 300)
    equal(kcat.end(), 0, "kcat's exit code")
    records = read(bootstrap, run_id)
    equal(len(records), 300, "records")
    for k, key in enumerate(KEYS):
        equal(values(records, key), [str(i) for i in range(k, 300, 2)], f"key {key}")
    return "3 partitions; acknowledgements seen by reading"


def txn_commit_abort(bootstrap, run_id):
    make_topic(bootstrap, run_id)
    total = 0
    for t in range(6):
        lines = [f"{KEYS[i % 2]}:{t}-{i}" for i in range(20)]
        total += len(lines)
        if t % 2 == 0:
            produce(bootstrap, run_id, lines, transactional_id=f"{run_id}-t")
            continue
        kcat = Kcat(bootstrap, "-P", "-t", run_id, "-K:", transactional_id=f"{run_id}-t")
        kcat.feed(*lines)
        until("the records are in the log", lambda: len(read(bootstrap, run_id, "read_uncommitted")) == total)
        kcat.stop()
        check("% Aborting transaction" in "".join(kcat.err), "kcat did not abort")
    committed, everything = read(bootstrap, run_id), read(bootstrap, run_id, "read_uncommitted")
    for k, key in enumerate(KEYS):
        wanted = [f"{t}-{i}" for t in range(6) for i in range(k, 20, 2)]
        equal(values(everything, key), wanted, f"read_uncommitted, key {key}")
        wanted = [v for v in wanted if int(v[0]) % 2 == 0]
        equal(values(committed, key), wanted, f"read_committed, key {key}")
    return "3 partitions; a process for each transaction, aborted by a signal"


def ctp(bootstrap, run_id):
    raise Cannot("kcat cannot send offsets to a transaction")


def zombie_fenced(bootstrap, run_id):
    make_topic(bootstrap, run_id)
    p1 = Kcat(bootstrap, "-P", "-t", run_id, "-K:", transactional_id=f"{run_id}-t")
    p1.feed("k:zombie-1")
    until("zombie-1 is in the log", lambda: read(bootstrap, run_id, "read_uncommitted"))
    produce(bootstrap, run_id, ["k:winner"], transactional_id=f"{run_id}-t")
    p1.feed("k:zombie-2")
    check(p1.end() != 0, "the zombie ended well")
    told = [line for line in p1.err if "fence" in line.lower()]
    check(told, "the zombie was not told that it is fenced")
    equal(values(read(bootstrap, run_id)), ["winner"], "read_committed")
    return "commit_transaction: " + ("old epoch" if "old epoch" in told[-1] else "fenced")


def read_committed_open(bootstrap, run_id):
    make_topic(bootstrap, run_id)
    produce(bootstrap, run_id, ["k:before"])
    p = Kcat(bootstrap, "-P", "-t", run_id, "-K:", transactional_id=f"{run_id}-t")
    p.feed("k:open")
    until("open is in the log", lambda: len(read(bootstrap, run_id, "read_uncommitted")) == 2)
    produce(bootstrap, run_id, ["k:after"])
    everything = ["before", "open", "after"]
    equal(values(read(bootstrap, run_id, "read_uncommitted")), everything, "read_uncommitted")
    equal(values(read(bootstrap, run_id)), ["before"], "read_committed while open, to the end")
    follow = Kcat(bootstrap, "-C", "-t", run_id, "-o", "beginning", "-u", "-J", isolation_level="read_committed")
    until("the record before", lambda: follow.out)
    equal(p.end(), 0, "kcat's exit code")
    until("the rest", lambda: len(follow.out) >= 3)
    equal(values(json.loads(line) for line in follow.out), everything, "read_committed after the commit")
    follow.process.kill()
    return "without: list offsets (the end that a read_committed reader reports instead)"


SCENARIOS = {f"produce-consume-{c}": functools.partial(produce_consume, c) for c in contract.CODECS}
SCENARIOS.update(
    {
        "admin": admin_calls,
        "group-rebalance": group_rebalance,
        "static-member": static_member,
        "idempotent-reconnect": idempotent_reconnect,
        "txn-commit-abort": txn_commit_abort,
        "ctp": ctp,
        "zombie-fenced": zombie_fenced,
        "read-committed-open": read_committed_open,
    }
)

if __name__ == "__main__":
    contract.main(SCENARIOS)
