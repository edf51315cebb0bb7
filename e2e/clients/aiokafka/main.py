"""aiokafka: the scenarios of e2e/README.md."""

import asyncio
import functools
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "python"))

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, ProducerFenced, TopicAlreadyExistsError, for_code
from aiokafka.helpers import create_ssl_context

import contract
from contract import END, LostAnswer, check, equal, log


async def until(what, probe):
    """Calls `probe` until it returns something true; it may be a coroutine function."""
    deadline = time.monotonic() + contract.DEADLINE_SECONDS
    while True:
        found = probe()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        check(time.monotonic() < deadline, f"not in time: {what}")
        await asyncio.sleep(0.01)


def security():
    """TLS and SASL, when the runner asks for them."""
    if not contract.USER:
        return {}
    return {**contract.python_security(), "ssl_context": create_ssl_context(cafile=contract.CA)}


@asynccontextmanager
async def admin(bootstrap):
    a = AIOKafkaAdminClient(bootstrap_servers=bootstrap, **security())
    await a.start()
    try:
        yield a
    finally:
        await a.close()


async def create(bootstrap, topic, partitions, **configs):
    async with admin(bootstrap) as a:
        response = await a.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)])
        (result,) = response.topic_errors
        if result[1] != 0:
            raise for_code(result[1])(result[-1])


async def producer(bootstrap, **config):
    config = {"acks": "all", "linger_ms": 5, **config}
    p = AIOKafkaProducer(bootstrap_servers=bootstrap, **security(), retry_backoff_ms=50, **config)
    await p.start()
    return p


async def transactional(bootstrap, run_id):
    return await producer(bootstrap, transactional_id=f"{run_id}-t")


def new_consumer(bootstrap, group=None, **config):
    return AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        **security(),
        group_id=group,
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

    async def send(self, partition, value, **more):
        self.futures.append(await self.p.send(self.topic, value, partition=partition, **more))

    async def flush(self):
        await self.p.flush()
        futures, self.futures = self.futures, []
        return [(ack.partition, ack.offset) for ack in [await future for future in futures]]


class Reader:
    """Reads all partitions from the beginning without a group."""

    def __init__(self, bootstrap, topic, partitions, isolation):
        self.c = new_consumer(bootstrap, isolation_level=isolation)
        self.tps = [TopicPartition(topic, p) for p in range(partitions)]
        self.values = {p: [] for p in range(partitions)}
        self.records = []

    async def start(self):
        await self.c.start()
        self.c.assign(self.tps)
        await self.c.seek_to_beginning(*self.tps)
        return self

    async def step(self):
        for batch in (await self.c.getmany(timeout_ms=100)).values():
            self.records.extend(batch)
            for record in batch:
                self.values[record.partition].append(record.value)

    async def until(self, condition, what):
        deadline = time.monotonic() + contract.DEADLINE_SECONDS
        while not condition():
            check(time.monotonic() < deadline, f"not in time: {what}")
            await self.step()

    async def to_end(self):
        await self.until(lambda: contract.ended(self.values, len(self.tps)), "the end records")
        await self.c.stop()
        return self.values


async def read_to_end(bootstrap, topic, partitions, isolation):
    reader = await Reader(bootstrap, topic, partitions, isolation).start()
    return await reader.to_end()


async def produce_consume(codec, bootstrap, run_id):
    await create(bootstrap, run_id, 3)
    wanted = contract.samples()
    p = await producer(bootstrap, compression_type=None if codec == "none" else codec)
    sender = Sender(p, run_id)
    for s in wanted:
        await sender.send(s.partition, s.value, key=s.key, headers=s.headers, timestamp_ms=s.timestamp)
    contract.check_acks(wanted, await sender.flush())
    await p.stop()
    reader = await Reader(bootstrap, run_id, 3, "read_committed").start()
    await reader.until(lambda: len(reader.records) >= len(wanted), "all records")
    await reader.c.stop()
    contract.check_samples(
        wanted,
        [(r.partition, r.offset, r.key, r.value, r.headers, r.timestamp) for r in reader.records],
    )


async def admin_calls(bootstrap, run_id):
    await create(bootstrap, run_id, 2, **{"retention.ms": "3600000"})
    try:
        await create(bootstrap, run_id, 2)
        check(False, "the topic was created twice")
    except TopicAlreadyExistsError:
        pass
    async with admin(bootstrap) as a:
        await admin_topics(a, run_id)
        await admin_offsets_and_groups(bootstrap, run_id, a)
        await a.delete_topics([run_id])

        async def gone():
            return run_id not in await a.list_topics()

        await until("the topic is gone", gone)
    return "without: incremental alter (only the full one), deleting groups"


async def admin_topics(a, run_id):
    async def describe():
        (topic,) = await a.describe_topics([run_id])
        return topic["partitions"]

    brokers = [b["node_id"] for b in (await a.describe_cluster())["brokers"]]
    partitions = await until("2 partitions", describe)
    equal(len(partitions), 2, "partitions")
    for p in partitions:
        check(p["leader"] in brokers, "a leader that is no broker")
        equal((len(p["replicas"]), len(p["isr"])), (1, 1), "replicas and in-sync replicas")

    async def configs():
        (response,) = await a.describe_configs([ConfigResource(ConfigResourceType.TOPIC, run_id)])
        (resource,) = response.resources
        equal(resource[0], 0, "describe configs error")
        return {entry[0]: entry for entry in resource[4]}

    found = await configs()
    equal(found["retention.ms"][1], "3600000", "retention.ms")
    # Name, value, read-only, source; 4 is the broker's own file, 5 the built-in default.
    check(found["segment.bytes"][3] in (4, 5), f"segment.bytes is no default: {found['segment.bytes']}")
    changes = {"retention.ms": "7200000", "max.message.bytes": "500000"}
    for response in await a.alter_configs([ConfigResource(ConfigResourceType.TOPIC, run_id, changes)]):
        equal([r[0] for r in response.resources], [0], "alter configs errors")

    async def altered():
        return (await configs())["retention.ms"][1] == "7200000"

    await until("altered configs", altered)
    equal((await configs())["max.message.bytes"][1], "500000", "max.message.bytes")
    await a.create_partitions({run_id: NewPartitions(4)})

    async def grown():
        return len(await describe()) == 4

    await until("4 partitions", grown)
    check(run_id in await a.list_topics(), "the topic is not listed")


async def admin_offsets_and_groups(bootstrap, run_id, a):
    p = await producer(bootstrap)
    for i in range(10):
        await p.send(run_id, b"%d" % i, partition=0)
    await p.stop()
    tp, group = TopicPartition(run_id, 0), f"{run_id}-g"
    c = new_consumer(bootstrap, group)
    await c.start()
    c.subscribe([run_id])
    equal(await c.beginning_offsets([tp]), {tp: 0}, "earliest")
    equal(await c.end_offsets([tp]), {tp: 10}, "latest")
    await until("an assignment", c.assignment)
    await c.commit({tp: 5})
    await c.stop()
    check(group in [name for name, _ in await a.list_consumer_groups()], "the group is not listed")
    (response,) = await a.describe_consumer_groups([group])
    (described,) = response.groups
    # Error, group, state, protocol type, protocol, members.
    equal((described[0], described[2], described[5]), (0, "Empty", []), "the group")
    offsets = await a.list_consumer_group_offsets(group)
    equal(offsets[tp].offset, 5, "the group's offset")
    await a.delete_records({tp: RecordsToDelete(4)})
    c = new_consumer(bootstrap)
    await c.start()
    equal(await c.beginning_offsets([tp]), {tp: 4}, "earliest after deleting records")
    await c.stop()


class Member(ConsumerRebalanceListener):
    """A group member that polls and commits in its own task."""

    def __init__(self, bootstrap, topic, group, **config):
        self.c = new_consumer(bootstrap, group, **config)
        self.topic = topic
        self.assigned = set()
        self.values = []
        self.rebalances = 0
        self.error = None
        self.going = True
        self.task = asyncio.create_task(self.run())

    def on_partitions_assigned(self, assigned):
        self.rebalances += 1
        self.assigned = {tp.partition for tp in assigned}

    def on_partitions_revoked(self, revoked):
        self.rebalances += 1
        self.assigned = set()

    async def run(self):
        try:
            await self.c.start()
            self.c.subscribe([self.topic], listener=self)
            while self.going:
                batches = await self.c.getmany(timeout_ms=100)
                if batches:
                    await self.c.commit()
                self.values.extend(r.value for batch in batches.values() for r in batch)
        except KafkaError as error:
            log("member:", repr(error))
            self.error = error
        finally:
            await self.c.stop()

    async def leave(self):
        self.going = False
        await self.task


def shared(a, b):
    for member in (a, b):
        if member.error:
            raise member.error
    return len(a.assigned) == len(b.assigned) == 2 and len(a.assigned | b.assigned) == 4


async def group_rebalance(bootstrap, run_id):
    await create(bootstrap, run_id, 4)
    group = f"{run_id}-g"
    sender = Sender(await producer(bootstrap), run_id)

    async def produce(start, stop):
        for i in range(start, stop):
            await sender.send(i % 4, b"%d" % i)
        await sender.flush()

    await produce(0, 80)
    a = Member(bootstrap, run_id, group)
    await until("A has read 80 records", lambda: a.error or len(a.values) == 80)
    equal(a.assigned, {0, 1, 2, 3}, "A's partitions")
    b = Member(bootstrap, run_id, group)
    await until("2 partitions each", lambda: shared(a, b))
    await produce(80, 140)
    await until("60 more", lambda: a.error or b.error or len(a.values) + len(b.values) >= 140)
    await a.leave()
    await until("B has all", lambda: b.error or b.assigned == {0, 1, 2, 3})
    await produce(140, 200)
    await until("all records", lambda: b.error or len(a.values) + len(b.values) >= 200)
    await b.leave()
    equal((a.error, b.error), (None, None), "errors")
    equal(sorted(map(int, a.values + b.values)), list(range(200)), "records read")
    equal(await committed_offsets(bootstrap, group, run_id, 4), [50] * 4, "committed offsets")


async def committed_offsets(bootstrap, group, topic, partitions):
    async with admin(bootstrap) as a:
        offsets = await a.list_consumer_group_offsets(group)
    return [offsets[TopicPartition(topic, p)].offset for p in range(partitions)]


async def static_member(bootstrap, run_id):
    await create(bootstrap, run_id, 4)

    def member(name):
        return Member(bootstrap, run_id, f"{run_id}-g", group_instance_id=f"{run_id}-{name}")

    a, b = member("a"), member("b")
    await until("2 partitions each", lambda: shared(a, b))
    kept, rebalances = set(b.assigned), a.rebalances
    await b.leave()
    b2 = member("b")
    await until("B2 has partitions", lambda: b2.error or b2.assigned)
    equal(b2.assigned, kept, "B2's partitions")
    equal(a.rebalances, rebalances, "A's rebalances")
    await a.leave()
    await b2.leave()
    return "without: the fenced one (heartbeats and commits here carry no instance id, so it joins again instead)"


async def idempotent_reconnect(bootstrap, run_id):
    await create(bootstrap, run_id, 2)
    sender = Sender(await producer(bootstrap, enable_idempotence=True), run_id)

    async def produce(start, stop):
        for i in range(start, stop):
            await sender.send(i % 2, b"%d" % i)

    await produce(0, 100)
    await sender.flush()
    lost = LostAnswer()
    await produce(100, 200)
    await sender.flush()
    lost.check()
    await produce(200, 250)
    contract.proxy("drop")
    await produce(250, 300)
    await sender.flush()
    await sender.send(0, END)
    await sender.send(1, END)
    await sender.flush()
    contract.check_reconnect(await read_to_end(bootstrap, run_id, 2, "read_committed"))


async def write_end(p, topic, partitions):
    await p.begin_transaction()
    for partition in range(partitions):
        await p.send(topic, END, partition=partition)
    await p.commit_transaction()


async def txn_commit_abort(bootstrap, run_id):
    await create(bootstrap, run_id, 2)
    p = await transactional(bootstrap, run_id)
    sender = Sender(p, run_id)
    for t in range(6):
        await p.begin_transaction()
        for i in range(20):
            await sender.send(i % 2, b"%d-%d" % (t, i))
        await sender.flush()
        await (p.commit_transaction() if t % 2 == 0 else p.abort_transaction())
    await write_end(p, run_id, 2)
    contract.check_transactions(
        await read_to_end(bootstrap, run_id, 2, "read_committed"),
        await read_to_end(bootstrap, run_id, 2, "read_uncommitted"),
    )


async def ctp(bootstrap, run_id):
    source, sink, group = f"{run_id}-in", f"{run_id}-out", f"{run_id}-g"
    await create(bootstrap, source, 2)
    await create(bootstrap, sink, 2)
    plain = Sender(await producer(bootstrap), source)
    for i in range(200):
        await plain.send(i % 2, b"%d" % i)
    await plain.flush()
    p = await transactional(bootstrap, run_id)
    c = new_consumer(bootstrap, group, isolation_level="read_committed", max_poll_records=50)
    await c.start()
    c.subscribe([source])
    copied, rounds, deadline = 0, 0, time.monotonic() + 30
    while copied < 200:
        check(time.monotonic() < deadline, f"only {copied} records copied")
        batches = await c.getmany(timeout_ms=200)
        records = [r for batch in batches.values() for r in batch]
        if not records:
            continue
        rounds += 1
        await p.begin_transaction()
        for r in records:
            await p.send(sink, b"out-" + r.value, partition=r.partition)
        positions = {tp: await c.position(tp) for tp in c.assignment()}
        await p.send_offsets_to_transaction(positions, group)
        if rounds == 2:
            await p.flush()
            await p.abort_transaction()
            for tp in c.assignment():
                c.seek(tp, await c.committed(tp) or 0)
            continue
        await p.commit_transaction()
        copied += len(records)
    await write_end(p, sink, 2)
    committed = await read_to_end(bootstrap, sink, 2, "read_committed")
    everything = await read_to_end(bootstrap, sink, 2, "read_uncommitted")
    contract.check_copied(committed, everything)
    await c.stop()
    equal(await committed_offsets(bootstrap, group, source, 2), [100, 100], "committed offsets")
    return "without: group metadata (the call takes a group id only)"


async def zombie_fenced(bootstrap, run_id):
    await create(bootstrap, run_id, 1)
    p1 = await transactional(bootstrap, run_id)
    await p1.begin_transaction()
    sender = Sender(p1, run_id)
    await sender.send(0, b"zombie-1")
    await sender.flush()
    p2 = await transactional(bootstrap, run_id)
    await p2.begin_transaction()
    await p2.send(run_id, b"winner", partition=0)
    await p2.commit_transaction()
    call, error = "nothing", None
    try:
        call = "send"
        await sender.send(0, b"zombie-2")
        call = "flush"
        await sender.flush()
        call = "commit_transaction"
        await p1.commit_transaction()
        check(False, "the zombie committed")
    except KafkaError as raised:
        error = raised
    check(isinstance(error, ProducerFenced), f"{call} failed with {error!r}")
    try:
        await asyncio.wait_for(p1.stop(), 10)
    except ProducerFenced as closed:
        log("closing the zombie:", repr(closed))
    await write_end(p2, run_id, 1)
    values = await read_to_end(bootstrap, run_id, 1, "read_committed")
    equal(values[0], [b"winner", END], "read_committed")
    return f"{call}: {type(error).__name__}"


async def read_committed_open(bootstrap, run_id):
    await create(bootstrap, run_id, 1)
    plain = await producer(bootstrap)
    p = await transactional(bootstrap, run_id)
    await plain.send_and_wait(run_id, b"before", partition=0)
    await p.begin_transaction()
    await p.send_and_wait(run_id, b"open", partition=0)
    await plain.send_and_wait(run_id, b"after", partition=0)
    dirty = await Reader(bootstrap, run_id, 1, "read_uncommitted").start()
    await dirty.until(lambda: len(dirty.values[0]) == 3, "3 uncommitted records")
    equal(dirty.values[0], [b"before", b"open", b"after"], "read_uncommitted")
    await dirty.c.stop()
    clean = await Reader(bootstrap, run_id, 1, "read_committed").start()
    await clean.until(lambda: clean.values[0], "the record before")
    for _ in range(10):
        await clean.step()
    equal(clean.values[0], [b"before"], "read_committed while open")
    (tp,) = clean.tps
    equal((clean.c.last_stable_offset(tp), clean.c.highwater(tp)), (1, 3), "last stable offset, high watermark")
    await p.commit_transaction()
    await clean.until(lambda: len(clean.values[0]) >= 3, "the rest")
    equal(clean.values[0], [b"before", b"open", b"after"], "read_committed after the commit")
    await clean.c.stop()
    return "without: list offsets by isolation (the fetch answers' last stable offset instead)"


def sync(scenario):
    return lambda bootstrap, run_id: asyncio.run(scenario(bootstrap, run_id))


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
    contract.main({name: sync(scenario) for name, scenario in SCENARIOS.items()})
