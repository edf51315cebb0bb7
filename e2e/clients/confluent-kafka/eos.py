"""The librdkafka side of `cargo xtask eos`: the programs `fill`, `work` and `read` of e2e/exactly-once.md."""

import random
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from eos_common import CALL, Abort, History, asked, calm, common, insist, note, run, send, transaction, transactional, watch
from eos_mix import Mixer

BATCH = 20  # records in one transaction, at most


def fill(bootstrap, topic, partitions):
    """Produces unique values idempotently, as many as each line asks for, until stdin is closed."""
    settings = {"enable.idempotence": True, "message.timeout.ms": 0, "linger.ms": 2, "queue.buffering.max.messages": 1000000}
    producer = Producer(common(bootstrap) | settings)
    history, count = History("fill"), 0

    def portion(wanted):
        nonlocal count
        op, values = history.begin("send"), [f"v{i}" for i in range(count, count + wanted)]
        left = wanted

        def done():
            nonlocal left
            left -= 1
            if left == 0:
                history.end("ok", op)

        places = [i % int(partitions) for i in range(count, count + wanted)]
        for partition, value in zip(places, values):
            history.write(f"{topic}/{partition}", value)
        history.flush()
        for partition, value in zip(places, values):
            send(history, producer, topic, partition, value, done)
        count += wanted

    while (line := asked(0.005)) != "":
        if line:
            portion(int(line))
        producer.poll(0)
    while producer.flush(1):
        pass


class Worker:
    """Consume, transform, produce: each batch and the offsets behind it in one transaction."""

    def __init__(self, bootstrap, source, target, group, slot, static, seed):
        self.chance = random.Random(f"{seed} {slot}")
        self.history, self.count = History(f"work-{slot}.{int(seed) % 2**32:x}"), 0
        self.group, self.target = group, target
        self.batch = []
        self.anew = set()  # partitions whose place is new
        settings = {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "partition.assignment.strategy": "range",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 50,
        }
        if static == "static":
            settings["group.instance.id"] = f"{group}-{slot}"
        self.consumer = Consumer(common(bootstrap) | settings)
        self.producer = Producer(transactional(bootstrap, f"{group}-{slot}"))
        self.partitions = len(self.producer.list_topics(target, 30).topics[target].partitions)
        insist(self.producer.init_transactions, CALL)
        # A batch whose partitions were revoked in the middle of polling belongs to another member by now.
        self.consumer.subscribe([source], on_assign=self.begin_anew, on_revoke=self.forget, on_lost=self.forget)

    def forget(self, *_):
        self.batch.clear()

    def begin_anew(self, _, places):
        self.forget()
        self.anew.update(f"{place.topic}/{place.partition}" for place in places)

    def poll(self):
        """Fills the batch until it is full or nothing more is at hand."""
        wait = 0.2
        while len(self.batch) < BATCH:
            message = self.consumer.poll(wait)
            if message is None:
                return
            if message.error():
                if message.error().fatal():
                    raise KafkaException(message.error())
                note(f"poll: {message.error()}")
                continue
            self.batch.append(message)
            wait = 0.002

    def transact(self):
        for key in self.anew:
            self.history.say("assigned", key=key)
        self.anew.clear()
        ends, sent = {}, []
        for m in self.batch:
            self.history.read(m)
            self.count += 1
            # With the count every value is one of its own: the same input may be written again after an abort.
            text = f"{m.partition()} {m.offset()} {m.value().decode()} {self.history.process}.{self.count}"
            partition, source = m.offset() % self.partitions, {"key": f"{m.topic()}/{m.partition()}", "offset": m.offset()}
            self.history.write(f"{self.target}/{partition}", text, source)
            sent.append((partition, text))
            ends[m.topic(), m.partition()] = m.offset() + 1
        for (topic, p), o in ends.items():
            self.history.say("offset", group=self.group, key=f"{topic}/{p}", offset=o)
        self.history.flush()
        for partition, text in sent:
            send(self.history, self.producer, self.target, partition, text)
        offsets = [TopicPartition(topic, p, o) for (topic, p), o in ends.items()]
        member = self.consumer.consumer_group_metadata()
        insist(self.producer.send_offsets_to_transaction, offsets, member, CALL)
        if self.chance.random() < 0.1:
            insist(self.producer.flush, CALL)
            raise Abort("on purpose")

    def rewind(self):
        """Back to the committed offsets, wherever the consumer is."""
        places = insist(self.consumer.committed, self.consumer.assignment(), CALL)
        self.history.begin("poll")
        for place in places:
            if place.error:
                raise KafkaException(place.error)
            key, known = f"{place.topic}/{place.partition}", place.offset >= 0
            self.history.say("committed", group=self.group, key=key, offset=place.offset if known else None)
            place.offset = place.offset if known else OFFSET_BEGINNING
            self.anew.add(key)
        self.history.end("ok")
        self.consumer.assign(places)

    def step(self):
        watch()
        self.batch.clear()
        self.poll()
        if self.batch and not transaction(self.history, self.producer, self.transact):
            self.rewind()

    def run(self):
        while asked(0) is None:
            self.step()
        watch(60)
        self.consumer.close()
        calm()


def ends(bootstrap, topic, level):
    """The latest offset of each partition for readers of this isolation level."""
    admin = AdminClient(common(bootstrap))
    partitions = admin.list_topics(topic, 30).topics[topic].partitions
    asked_for = {TopicPartition(topic, p): OffsetSpec.latest() for p in partitions}
    found = admin.list_offsets(asked_for, isolation_level=level)
    return {place.partition: future.result(30).offset for place, future in found.items()}


def read(bootstrap, topic):
    """Everything a read_committed reader sees, to the last stable offset."""
    history = History(f"librdkafka reads {topic}")
    history.begin("drain")
    stable = ends(bootstrap, topic, IsolationLevel.READ_COMMITTED)
    for p, high in ends(bootstrap, topic, IsolationLevel.READ_UNCOMMITTED).items():
        history.say("ends", key=f"{topic}/{p}", high=high, stable=stable[p])
    settings = {
        "group.id": "unused",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer(common(bootstrap) | settings)
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in stable])
    missing = set(stable)
    deadline = time.monotonic() + 60
    while missing:
        if time.monotonic() > deadline:
            sys.exit(f"reading {topic}: partitions {missing} did not come to their end")
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
            if message.offset() >= stable[message.partition()]:
                missing.discard(message.partition())
        elif message.error():
            note(f"poll: {message.error()}")
        else:
            history.read(message)
    for p in stable:
        history.say("drained", key=f"{topic}/{p}")
    history.end("ok")
    consumer.close()


def work(*arguments):
    run(Worker, *arguments)


def mix(*arguments):
    run(Mixer, *arguments)


if __name__ == "__main__":
    {"fill": fill, "work": work, "mix": mix, "read": read}[sys.argv[1]](*sys.argv[2:])
