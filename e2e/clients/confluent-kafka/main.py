"""confluent-kafka (librdkafka): the scenarios of e2e/README.md."""

import functools
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "python"))

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

import contract
from contract import END, LostAnswer, check, equal, log, until


@functools.cache
def admin(bootstrap):
    """One for the whole run: librdkafka cancels the calls of an admin client that is dropped."""
    return AdminClient({"bootstrap.servers": bootstrap, **contract.librdkafka_security()})


def done(futures):
    """The result of an admin call on one thing."""
    (future,) = futures.values()
    return future.result(30)


def create(bootstrap, topic, partitions, **config):
    done(admin(bootstrap).create_topics([NewTopic(topic, partitions, 1, config=config)]))


def producer(bootstrap, **config):
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all", **contract.librdkafka_security()}
    settings.update({name.replace("_", "."): value for name, value in config.items()})
    return Producer(settings)


def consumer(bootstrap, group, **config):
    settings = {
        **contract.librdkafka_security(),
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "heartbeat.interval.ms": 500,
        "session.timeout.ms": 10000,
        "fetch.wait.max.ms": 100,
    }
    settings.update({name.replace("_", "."): value for name, value in config.items()})
    return Consumer(settings)


def send(p, topic, partition, *values):
    """Queues values; `flush` raises on a delivery that failed."""
    for value in values:
        p.produce(topic, value, partition=partition, on_delivery=delivered)


failures = []


def delivered(error, message):
    if error is not None:
        failures.append(error)


def flush(p):
    equal(p.flush(30), 0, "records left after flush")
    if failures:
        raise KafkaException(failures.pop())


def poll(c):
    message = c.poll(0.1)
    if message is not None and message.error():
        raise KafkaException(message.error())
    return message


class Reader:
    """Reads all partitions from the beginning without a group."""

    def __init__(self, bootstrap, topic, partitions, isolation):
        self.c = consumer(bootstrap, f"{topic}-reader", isolation_level=isolation)
        self.c.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        self.partitions = partitions
        self.values = {p: [] for p in range(partitions)}
        self.messages = []

    def step(self):
        message = poll(self.c)
        if message is not None:
            self.messages.append(message)
            self.values[message.partition()].append(message.value())

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
    acks = [None] * len(wanted)

    def acked(i, error, message):
        acks[i] = error or (message.partition(), message.offset())

    p = producer(bootstrap, compression_type=codec)
    for i, s in enumerate(wanted):
        p.produce(
            run_id,
            s.value,
            s.key,
            partition=s.partition,
            timestamp=s.timestamp,
            headers=s.headers,
            on_delivery=functools.partial(acked, i),
        )
    flush(p)
    contract.check_acks(wanted, acks)
    reader = Reader(bootstrap, run_id, 3, "read_committed")
    reader.until(lambda: len(reader.messages) >= len(wanted), "all records")
    reader.c.close()
    contract.check_samples(
        wanted,
        [
            (m.partition(), m.offset(), m.key(), m.value(), m.headers() or [], m.timestamp()[1])
            for m in reader.messages
        ],
    )


def admin_calls(bootstrap, run_id):
    a = admin(bootstrap)
    create(bootstrap, run_id, 2, **{"retention.ms": "3600000"})
    try:
        create(bootstrap, run_id, 2)
        check(False, "the topic was created twice")
    except KafkaException as error:
        equal(error.args[0].code(), KafkaError.TOPIC_ALREADY_EXISTS, "second creation")

    def describe():
        return done(a.describe_topics(TopicCollection([run_id])))

    brokers = [node.id for node in a.describe_cluster().result(30).nodes]
    partitions = until("2 partitions", lambda: describe().partitions)
    equal(len(partitions), 2, "partitions")
    for p in partitions:
        check(p.leader.id in brokers, "a leader that is no broker")
        equal((len(p.replicas), len(p.isr)), (1, 1), "replicas and in-sync replicas")
    resource = ConfigResource(ConfigResource.Type.TOPIC, run_id)

    def config(name):
        return done(a.describe_configs([resource]))[name]

    equal(config("retention.ms").value, "3600000", "retention.ms")
    check(config("segment.bytes").is_default, "segment.bytes is not shown as a default")
    change = ConfigResource(ConfigResource.Type.TOPIC, run_id)
    for name, value in [("retention.ms", "7200000"), ("max.message.bytes", "500000")]:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        change.add_incremental_config(entry)
    done(a.incremental_alter_configs([change]))
    until("altered configs", lambda: config("retention.ms").value == "7200000")
    equal(config("max.message.bytes").value, "500000", "max.message.bytes")
    done(a.create_partitions([NewPartitions(run_id, 4)]))
    until("4 partitions", lambda: len(describe().partitions) == 4)
    check(run_id in a.list_topics(timeout=30).topics, "the topic is not listed")
    admin_offsets_and_groups(bootstrap, run_id, a)
    done(a.delete_topics([run_id]))
    until("the topic is gone", lambda: run_id not in a.list_topics(timeout=30).topics)


def admin_offsets_and_groups(bootstrap, run_id, a):
    p = producer(bootstrap)
    send(p, run_id, 0, *[b"%d" % i for i in range(10)])
    flush(p)
    equal(offset(a, run_id, OffsetSpec.earliest()), 0, "earliest")
    equal(offset(a, run_id, OffsetSpec.latest()), 10, "latest")
    group = f"{run_id}-g"
    c = consumer(bootstrap, group)
    c.subscribe([run_id])
    until("an assignment", lambda: poll(c) is None and c.assignment() or c.assignment())
    c.commit(offsets=[TopicPartition(run_id, 0, 5)], asynchronous=False)
    c.close()

    def listed():
        return [g.group_id for g in a.list_consumer_groups().result(30).valid]

    check(group in listed(), "the group is not listed")
    described = done(a.describe_consumer_groups([group]))
    equal((described.state, described.members), (ConsumerGroupState.EMPTY, []), "the group")
    offsets = done(a.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    found = {(tp.topic, tp.partition): tp.offset for tp in offsets.topic_partitions}
    equal(found.get((run_id, 0)), 5, "the group's offset")
    done(a.delete_consumer_groups([group]))
    check(group not in listed(), "the group is still listed")
    done(a.delete_records([TopicPartition(run_id, 0, 4)]))
    equal(offset(a, run_id, OffsetSpec.earliest()), 4, "earliest after deleting records")


def offset(a, topic, spec, isolation=IsolationLevel.READ_UNCOMMITTED):
    return done(a.list_offsets({TopicPartition(topic, 0): spec}, isolation_level=isolation)).offset


class Member(threading.Thread):
    """A group member that polls and commits in its own thread."""

    def __init__(self, bootstrap, topic, group, **config):
        super().__init__(daemon=True)
        self.c = consumer(bootstrap, group, **config)
        self.topic = topic
        self.assigned = set()
        self.values = []
        self.rebalances = 0
        self.error = None
        self.going = True
        self.start()

    def on_assign(self, _, partitions):
        self.rebalances += 1
        self.assigned = {tp.partition for tp in partitions}

    def on_revoke(self, _, partitions):
        self.rebalances += 1
        self.assigned = set()

    def run(self):
        try:
            self.c.subscribe([self.topic], on_assign=self.on_assign, on_revoke=self.on_revoke)
            while self.going:
                message = poll(self.c)
                if message is not None:
                    self.c.commit(message=message, asynchronous=False)
                    self.values.append(message.value())
        except KafkaException as error:
            log("member:", error)
            self.error = error.args[0]
        finally:
            self.rebalances_when_closed = self.rebalances
            self.c.close()

    def leave(self):
        self.going = False
        self.join(30)


def group_rebalance(bootstrap, run_id):
    create(bootstrap, run_id, 4)
    group = f"{run_id}-g"
    p = producer(bootstrap)

    def produce(start, stop):
        for i in range(start, stop):
            send(p, run_id, i % 4, b"%d" % i)
        flush(p)

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
    c = consumer(bootstrap, group)
    offsets = c.committed([TopicPartition(run_id, p) for p in range(4)], timeout=30)
    equal([tp.offset for tp in offsets], [50] * 4, "committed offsets")


def shared(a, b):
    if a.error or b.error:
        raise KafkaException(a.error or b.error)
    return len(a.assigned) == len(b.assigned) == 2 and len(a.assigned | b.assigned) == 4


def static_member(bootstrap, run_id):
    create(bootstrap, run_id, 4)

    def member(name):
        return Member(bootstrap, run_id, f"{run_id}-g", group_instance_id=f"{run_id}-{name}")

    a, b = member("a"), member("b")
    until("2 partitions each", lambda: shared(a, b))
    mine, rebalances = b.assigned, a.rebalances
    kept = set(mine)
    b.leave()
    b2 = member("b")
    until("B2 has partitions", lambda: b2.error or b2.assigned)
    equal(b2.assigned, kept, "B2's partitions")
    b3 = member("b")
    until("B3 has partitions", lambda: b3.error or b3.assigned)
    equal(b3.assigned, kept, "B3's partitions")
    until("B2 is fenced", lambda: b2.error)
    code = b2.error.code()
    check(code in (KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL), f"B2 got {b2.error}")
    equal(a.rebalances, rebalances, "A's rebalances")
    a.leave()
    b3.leave()
    log("B2 got", b2.error)


def idempotent_reconnect(bootstrap, run_id):
    create(bootstrap, run_id, 2)
    p = producer(bootstrap, enable_idempotence=True, reconnect_backoff_ms=50, retry_backoff_ms=50)

    def produce(start, stop):
        for i in range(start, stop):
            send(p, run_id, i % 2, b"%d" % i)
            p.poll(0)

    produce(0, 100)
    flush(p)
    lost = LostAnswer()
    produce(100, 200)
    flush(p)
    lost.check()
    produce(200, 250)
    contract.proxy("drop")
    produce(250, 300)
    flush(p)
    send(p, run_id, 0, END)
    send(p, run_id, 1, END)
    flush(p)
    contract.check_reconnect(read_to_end(bootstrap, run_id, 2, "read_committed"))


def transactional(bootstrap, run_id):
    p = producer(bootstrap, transactional_id=f"{run_id}-t")
    p.init_transactions(30)
    return p


def txn_commit_abort(bootstrap, run_id):
    create(bootstrap, run_id, 2)
    p = transactional(bootstrap, run_id)
    for t in range(6):
        p.begin_transaction()
        for i in range(20):
            send(p, run_id, i % 2, b"%d-%d" % (t, i))
        flush(p)
        (p.commit_transaction if t % 2 == 0 else p.abort_transaction)(30)
    write_end(p, run_id, 2)
    contract.check_transactions(
        read_to_end(bootstrap, run_id, 2, "read_committed"),
        read_to_end(bootstrap, run_id, 2, "read_uncommitted"),
    )


def write_end(p, topic, partitions):
    p.begin_transaction()
    for partition in range(partitions):
        send(p, topic, partition, END)
    p.commit_transaction(30)


def ctp(bootstrap, run_id):
    source, sink, group = f"{run_id}-in", f"{run_id}-out", f"{run_id}-g"
    create(bootstrap, source, 2)
    create(bootstrap, sink, 2)
    plain = producer(bootstrap)
    for i in range(200):
        send(plain, source, i % 2, b"%d" % i)
    flush(plain)
    p = transactional(bootstrap, run_id)
    c = consumer(bootstrap, group, isolation_level="read_committed")
    c.subscribe([source])
    copied, rounds, deadline = 0, 0, time.monotonic() + 30
    while copied < 200:
        check(time.monotonic() < deadline, f"only {copied} records copied")
        messages = c.consume(50, 0.2)
        if not messages:
            continue
        rounds += 1
        p.begin_transaction()
        for m in messages:
            check(m.error() is None, f"consumer: {m.error()}")
            send(p, sink, m.partition(), b"out-" + m.value())
        p.send_offsets_to_transaction(c.position(c.assignment()), c.consumer_group_metadata(), 30)
        if rounds == 2:
            flush(p)
            p.abort_transaction(30)
            for tp in c.committed(c.assignment(), timeout=30):
                c.seek(TopicPartition(tp.topic, tp.partition, max(tp.offset, 0)))
            continue
        p.commit_transaction(30)
        copied += len(messages)
    write_end(p, sink, 2)
    committed = read_to_end(bootstrap, sink, 2, "read_committed")
    contract.check_copied(committed, read_to_end(bootstrap, sink, 2, "read_uncommitted"))
    offsets = c.committed([TopicPartition(source, p) for p in range(2)], timeout=30)
    equal([tp.offset for tp in offsets], [100, 100], "committed offsets")
    c.close()


def zombie_fenced(bootstrap, run_id):
    create(bootstrap, run_id, 1)
    p1 = transactional(bootstrap, run_id)
    p1.begin_transaction()
    send(p1, run_id, 0, b"zombie-1")
    flush(p1)
    p2 = transactional(bootstrap, run_id)
    p2.begin_transaction()
    send(p2, run_id, 0, b"winner")
    p2.commit_transaction(30)
    call, error = "nothing", None
    try:
        call = "produce"
        p1.produce(run_id, b"zombie-2", partition=0)
        call = "flush"
        p1.flush(30)
        call = "commit_transaction"
        p1.commit_transaction(30)
        check(False, "the zombie committed")
    except KafkaException as raised:
        error = raised.args[0]
    fenced = [KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH]
    check(error.code() in fenced, f"{call} failed with {error}")
    p1.flush(5)
    write_end(p2, run_id, 1)
    equal(read_to_end(bootstrap, run_id, 1, "read_committed")[0], [b"winner", END], "read_committed")
    return f"{call}: {error.name()}"


def read_committed_open(bootstrap, run_id):
    create(bootstrap, run_id, 1)
    plain, p, a = producer(bootstrap), transactional(bootstrap, run_id), admin(bootstrap)
    send(plain, run_id, 0, b"before")
    flush(plain)
    p.begin_transaction()
    send(p, run_id, 0, b"open")
    flush(p)
    send(plain, run_id, 0, b"after")
    flush(plain)
    dirty = Reader(bootstrap, run_id, 1, "read_uncommitted")
    dirty.until(lambda: len(dirty.values[0]) == 3, "3 uncommitted records")
    equal(dirty.values[0], [b"before", b"open", b"after"], "read_uncommitted")
    clean = Reader(bootstrap, run_id, 1, "read_committed")
    clean.until(lambda: clean.values[0], "the record before")
    for _ in range(10):
        clean.step()
    equal(clean.values[0], [b"before"], "read_committed while open")
    latest = OffsetSpec.latest()
    equal(offset(a, run_id, latest, IsolationLevel.READ_COMMITTED), 1, "latest, read_committed")
    equal(offset(a, run_id, latest), 3, "latest, read_uncommitted")
    p.commit_transaction(30)
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
