"""kafka-python: the scenarios of e2e/README.md."""

import functools
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "python"))

from kafka import (
    ConsumerRebalanceListener,
    IsolationLevel,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    OffsetSpec,
    TopicPartition,
)
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    FencedInstanceIdError,
    InvalidProducerEpochError,
    KafkaError,
    ProducerFencedError,
    TopicAlreadyExistsError,
)

import contract
from contract import END, LostAnswer, check, equal, log, until


def security():
    """TLS and SASL, when the runner asks for them."""
    return {**contract.python_security(), "ssl_cafile": contract.CA} if contract.USER else {}


@functools.cache
def admin(bootstrap):
    return KafkaAdminClient(bootstrap_servers=bootstrap, **security())


def create(bootstrap, topic, partitions, **configs):
    topics = {topic: {"num_partitions": partitions, "replication_factor": 1, "configs": configs}}
    admin(bootstrap).create_topics(topics, wait_for_metadata=True)


def producer(bootstrap, **config):
    return KafkaProducer(bootstrap_servers=bootstrap, **security(), acks="all", linger_ms=5, **config)


def consumer(bootstrap, **config):
    return KafkaConsumer(
        bootstrap_servers=bootstrap,
        **security(),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=500,
        session_timeout_ms=10000,
        fetch_max_wait_ms=100,
        **config,
    )


class Sender:
    """Sends values and, on flush, raises for any that was not acknowledged."""

    def __init__(self, p, topic):
        self.p, self.topic, self.futures = p, topic, []

    def send(self, partition, value, **more):
        self.futures.append(self.p.send(self.topic, value, partition=partition, **more))

    def flush(self):
        self.p.flush(30)
        acks = [(f.partition, f.offset) for f in (future.get(30) for future in self.futures)]
        self.futures = []
        return acks


class Reader:
    """Reads all partitions from the beginning without a group."""

    def __init__(self, bootstrap, topic, partitions, isolation):
        self.c = consumer(bootstrap, isolation_level=isolation)
        tps = [TopicPartition(topic, p) for p in range(partitions)]
        self.c.assign(tps)
        self.c.seek_to_beginning(*tps)
        self.partitions = partitions
        self.values = {p: [] for p in range(partitions)}
        self.records = []

    def step(self):
        for record in (r for batch in self.c.poll(100).values() for r in batch):
            self.records.append(record)
            self.values[record.partition].append(record.value)

    def until(self, condition, what):
        until(what, lambda: condition() or self.step(), pause=0)

    def to_end(self):
        self.until(lambda: contract.ended(self.values, self.partitions), "the end records")
        self.c.close()
        return self.values


def read_to_end(bootstrap, topic, partitions, isolation):
    return Reader(bootstrap, topic, partitions, isolation).to_end()


def produce_consume(codec, bootstrap, run_id):
    create(bootstrap, run_id, 3)
    wanted = contract.samples()
    sender = Sender(producer(bootstrap, compression_type=None if codec == "none" else codec), run_id)
    for s in wanted:
        sender.send(s.partition, s.value, key=s.key, headers=s.headers, timestamp_ms=s.timestamp)
    contract.check_acks(wanted, sender.flush())
    reader = Reader(bootstrap, run_id, 3, "read_committed")
    reader.until(lambda: len(reader.records) >= len(wanted), "all records")
    reader.c.close()
    contract.check_samples(
        wanted,
        [(r.partition, r.offset, r.key, r.value, r.headers, r.timestamp) for r in reader.records],
    )


def admin_calls(bootstrap, run_id):
    a = admin(bootstrap)
    create(bootstrap, run_id, 2, **{"retention.ms": "3600000"})
    try:
        create(bootstrap, run_id, 2)
        check(False, "the topic was created twice")
    except TopicAlreadyExistsError:
        pass
    brokers = [b["broker_id"] for b in a.describe_cluster()["brokers"]]

    def describe():
        (topic,) = a.describe_topics([run_id])
        return topic["partitions"]

    partitions = until("2 partitions", describe)
    equal(len(partitions), 2, "partitions")
    for p in partitions:
        check(p["leader_id"] in brokers, "a leader that is no broker")
        equal((len(p["replica_nodes"]), len(p["isr_nodes"])), (1, 1), "replicas and in-sync replicas")

    def config(name):
        found = a.describe_configs([ConfigResource(ConfigResourceType.TOPIC, run_id)], config_filter="all")
        return found["topic"][run_id][name]

    equal(config("retention.ms")["value"], "3600000", "retention.ms")
    segment = config("segment.bytes")
    check("DEFAULT" in str(segment) or "STATIC" in str(segment), f"segment.bytes is no default: {segment}")
    changes = {"retention.ms": "7200000", "max.message.bytes": "500000"}
    a.alter_configs([ConfigResource(ConfigResourceType.TOPIC, run_id, changes)], incremental=True)
    until("altered configs", lambda: config("retention.ms")["value"] == "7200000")
    equal(config("max.message.bytes")["value"], "500000", "max.message.bytes")
    a.create_partitions({run_id: 4})
    until("4 partitions", lambda: len(describe()) == 4)
    check(run_id in a.list_topics(), "the topic is not listed")
    admin_offsets_and_groups(bootstrap, run_id, a)
    a.delete_topics([run_id])
    until("the topic is gone", lambda: run_id not in a.list_topics())


def admin_offsets_and_groups(bootstrap, run_id, a):
    sender = Sender(producer(bootstrap), run_id)
    for i in range(10):
        sender.send(0, b"%d" % i)
    sender.flush()
    equal(offset(a, run_id, OffsetSpec.EARLIEST), 0, "earliest")
    equal(offset(a, run_id, OffsetSpec.LATEST), 10, "latest")
    group = f"{run_id}-g"
    c = consumer(bootstrap, group_id=group)
    c.subscribe([run_id])
    until("an assignment", lambda: c.poll(100) and c.assignment() or c.assignment())
    c.commit({TopicPartition(run_id, 0): OffsetAndMetadata(5)})
    c.close()

    def listed():
        return [g["group_id"] for g in a.list_groups()]

    check(group in listed(), "the group is not listed")
    described = a.describe_groups([group])[group]
    equal((described["group_state"], described["members"]), ("Empty", []), "the group")
    offsets = a.list_group_offsets({group: None})[group]
    equal(offsets[TopicPartition(run_id, 0)].offset, 5, "the group's offset")
    equal(a.delete_groups([group]), {group: "OK"}, "deleting the group")
    check(group not in listed(), "the group is still listed")
    a.delete_records({TopicPartition(run_id, 0): 4})
    equal(offset(a, run_id, OffsetSpec.EARLIEST), 4, "earliest after deleting records")


def offset(a, topic, spec, isolation=IsolationLevel.READ_UNCOMMITTED):
    tp = TopicPartition(topic, 0)
    return a.list_partition_offsets({tp: spec}, isolation_level=isolation)[tp].offset


class Member(threading.Thread, ConsumerRebalanceListener):
    """A group member that polls and commits in its own thread."""

    def __init__(self, bootstrap, topic, group, **config):
        super().__init__(daemon=True)
        self.c = consumer(bootstrap, group_id=group, **config)
        self.topic = topic
        self.assigned = set()
        self.values = []
        self.rebalances = 0
        self.error = None
        self.going = True
        self.commits_always = False
        self.start()

    def on_partitions_assigned(self, assigned):
        self.rebalances += 1
        self.assigned = {tp.partition for tp in assigned}

    def on_partitions_revoked(self, revoked):
        self.rebalances += 1
        self.assigned = set()

    def run(self):
        try:
            self.c.subscribe([self.topic], listener=self)
            while self.going:
                # Longer than a rebalance takes: this client loses an assignment that arrives just when a poll gives up.
                batches = self.c.poll(1500)
                if batches or self.commits_always:
                    self.c.commit()
                self.values.extend(r.value for batch in batches.values() for r in batch)
        except KafkaError as error:
            log("member:", repr(error))
            self.error = error
        finally:
            self.c.close()

    def leave(self):
        self.going = False
        self.join(30)


def shared(a, b):
    for member in (a, b):
        if member.error:
            raise member.error
    return len(a.assigned) == len(b.assigned) == 2 and len(a.assigned | b.assigned) == 4


def group_rebalance(bootstrap, run_id):
    create(bootstrap, run_id, 4)
    group = f"{run_id}-g"
    sender = Sender(producer(bootstrap), run_id)

    def produce(start, stop):
        for i in range(start, stop):
            sender.send(i % 4, b"%d" % i)
        sender.flush()

    produce(0, 80)
    a = Member(bootstrap, run_id, group)
    until("A has read 80 records", lambda: a.error or len(a.values) == 80)
    equal(a.assigned, {0, 1, 2, 3}, "A's partitions")
    b = Member(bootstrap, run_id, group)
    until("2 partitions each", lambda: shared(a, b))
    produce(80, 140)
    until("60 more", lambda: a.error or b.error or len(a.values) + len(b.values) >= 140)
    a.leave()
    until("B has all", lambda: b.error or b.assigned == {0, 1, 2, 3})
    produce(140, 200)
    until("all records", lambda: b.error or len(a.values) + len(b.values) >= 200)
    b.leave()
    equal((a.error, b.error), (None, None), "errors")
    equal(sorted(map(int, a.values + b.values)), list(range(200)), "records read")
    equal(committed_offsets(bootstrap, group, run_id, 4), [50] * 4, "committed offsets")


def committed_offsets(bootstrap, group, topic, partitions):
    c = consumer(bootstrap, group_id=group)
    found = [c.committed(TopicPartition(topic, p)) for p in range(partitions)]
    c.close()
    return found


def static_member(bootstrap, run_id):
    create(bootstrap, run_id, 4)

    def member(name):
        return Member(bootstrap, run_id, f"{run_id}-g", group_instance_id=f"{run_id}-{name}")

    a, b = member("a"), member("b")
    until("2 partitions each", lambda: shared(a, b))
    kept, rebalances = set(b.assigned), a.rebalances
    b.leave()
    b2 = member("b")
    until("B2 has partitions", lambda: b2.error or b2.assigned)
    equal(b2.assigned, kept, "B2's partitions")
    b3 = member("b")
    until("B3 has partitions", lambda: b3.error or b3.assigned)
    equal(b3.assigned, kept, "B3's partitions")
    # A fenced heartbeat is only logged by this client; a commit raises.
    b2.commits_always = True
    until("B2 is fenced", lambda: b2.error)
    check(isinstance(b2.error, FencedInstanceIdError), f"B2 got {b2.error!r}")
    equal(a.rebalances, rebalances, "A's rebalances")
    a.leave()
    b3.leave()


def idempotent_reconnect(bootstrap, run_id):
    create(bootstrap, run_id, 2)
    sender = Sender(producer(bootstrap, enable_idempotence=True), run_id)

    def produce(start, stop):
        for i in range(start, stop):
            sender.send(i % 2, b"%d" % i)

    produce(0, 100)
    sender.flush()
    lost = LostAnswer()
    produce(100, 200)
    sender.flush()
    lost.check()
    produce(200, 250)
    contract.proxy("drop")
    produce(250, 300)
    sender.flush()
    sender.send(0, END)
    sender.send(1, END)
    sender.flush()
    contract.check_reconnect(read_to_end(bootstrap, run_id, 2, "read_committed"))


def transactional(bootstrap, run_id):
    p = producer(bootstrap, transactional_id=f"{run_id}-t", max_block_ms=30000)
    p.init_transactions()
    return p


def write_end(p, topic, partitions):
    p.begin_transaction()
    for partition in range(partitions):
        p.send(topic, END, partition=partition)
    p.commit_transaction()


def txn_commit_abort(bootstrap, run_id):
    create(bootstrap, run_id, 2)
    p = transactional(bootstrap, run_id)
    sender = Sender(p, run_id)
    for t in range(6):
        p.begin_transaction()
        for i in range(20):
            sender.send(i % 2, b"%d-%d" % (t, i))
        sender.flush()
        if t % 2 == 0:
            p.commit_transaction()
        else:
            p.abort_transaction()
    write_end(p, run_id, 2)
    contract.check_transactions(
        read_to_end(bootstrap, run_id, 2, "read_committed"),
        read_to_end(bootstrap, run_id, 2, "read_uncommitted"),
    )


def ctp(bootstrap, run_id):
    source, sink, group = f"{run_id}-in", f"{run_id}-out", f"{run_id}-g"
    create(bootstrap, source, 2)
    create(bootstrap, sink, 2)
    plain = Sender(producer(bootstrap), source)
    for i in range(200):
        plain.send(i % 2, b"%d" % i)
    plain.flush()
    p = transactional(bootstrap, run_id)
    c = consumer(bootstrap, group_id=group, isolation_level="read_committed", max_poll_records=50)
    c.subscribe([source])
    copied, rounds, deadline = 0, 0, time.monotonic() + 30
    while copied < 200:
        check(time.monotonic() < deadline, f"only {copied} records copied")
        records = [r for batch in c.poll(200).values() for r in batch]
        if not records:
            continue
        rounds += 1
        p.begin_transaction()
        for r in records:
            p.send(sink, b"out-" + r.value, partition=r.partition)
        positions = {tp: OffsetAndMetadata(c.position(tp)) for tp in c.assignment()}
        p.send_offsets_to_transaction(positions, c.group_metadata())
        if rounds == 2:
            p.flush(30)
            p.abort_transaction()
            for tp in c.assignment():
                c.seek(tp, c.committed(tp) or 0)
            continue
        p.commit_transaction()
        copied += len(records)
    write_end(p, sink, 2)
    committed = read_to_end(bootstrap, sink, 2, "read_committed")
    contract.check_copied(committed, read_to_end(bootstrap, sink, 2, "read_uncommitted"))
    c.close()
    equal(committed_offsets(bootstrap, group, source, 2), [100, 100], "committed offsets")


def zombie_fenced(bootstrap, run_id):
    create(bootstrap, run_id, 1)
    p1 = transactional(bootstrap, run_id)
    p1.begin_transaction()
    sender = Sender(p1, run_id)
    sender.send(0, b"zombie-1")
    sender.flush()
    p2 = transactional(bootstrap, run_id)
    p2.begin_transaction()
    p2.send(run_id, b"winner", partition=0)
    p2.commit_transaction()
    call, error = "nothing", None
    try:
        call = "send"
        sender.send(0, b"zombie-2")
        call = "flush"
        sender.flush()
        call = "commit_transaction"
        p1.commit_transaction()
        check(False, "the zombie committed")
    except KafkaError as raised:
        error = raised
    check(isinstance(error, (ProducerFencedError, InvalidProducerEpochError)), f"{call} failed with {error!r}")
    p1.close(5)
    write_end(p2, run_id, 1)
    equal(read_to_end(bootstrap, run_id, 1, "read_committed")[0], [b"winner", END], "read_committed")
    return f"{call}: {type(error).__name__}"


def read_committed_open(bootstrap, run_id):
    create(bootstrap, run_id, 1)
    plain, p, a = Sender(producer(bootstrap), run_id), transactional(bootstrap, run_id), admin(bootstrap)
    plain.send(0, b"before")
    plain.flush()
    p.begin_transaction()
    p.send(run_id, b"open", partition=0)
    p.flush(30)
    plain.send(0, b"after")
    plain.flush()
    dirty = Reader(bootstrap, run_id, 1, "read_uncommitted")
    dirty.until(lambda: len(dirty.values[0]) == 3, "3 uncommitted records")
    equal(dirty.values[0], [b"before", b"open", b"after"], "read_uncommitted")
    clean = Reader(bootstrap, run_id, 1, "read_committed")
    clean.until(lambda: clean.values[0], "the record before")
    for _ in range(10):
        clean.step()
    equal(clean.values[0], [b"before"], "read_committed while open")
    equal(offset(a, run_id, OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED), 1, "latest, read_committed")
    equal(offset(a, run_id, OffsetSpec.LATEST), 3, "latest, read_uncommitted")
    p.commit_transaction()
    clean.until(lambda: len(clean.values[0]) >= 3, "the rest")
    equal(clean.values[0], [b"before", b"open", b"after"], "read_committed after the commit")


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
