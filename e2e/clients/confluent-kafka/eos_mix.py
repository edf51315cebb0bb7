"""The program `mix` of `cargo xtask eos`: sends, polls and transactions of both, in no order, on a topic that several share."""

import random

from confluent_kafka import Consumer, Producer, TopicPartition

from eos_common import CALL, Abort, History, asked, calm, common, insist, note, send, transaction, transactional, watch

REASSIGN = 1 / 64  # how often an operation is a new assignment


class Mixer:
    """One process of the history: it does one operation after another and tells what it asked for and what it saw."""

    def __init__(self, bootstrap, topic, others, slot, seed):
        self.chance = random.Random(f"{seed} mix {slot}")
        self.history = History(f"mix-{slot}.{int(seed) % 2**32:x}")
        self.topic, self.count = topic, 0
        self.anew = []  # partitions whose place is new
        settings = {
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
        }
        self.consumer = Consumer(common(bootstrap) | settings)
        plain = {"enable.idempotence": True, "message.timeout.ms": 0, "linger.ms": 0}
        self.plain = Producer(common(bootstrap) | plain)
        self.atomic = Producer(transactional(bootstrap, f"mix-{slot}"))
        known = insist(self.atomic.list_topics, None, CALL)
        self.places = [TopicPartition(t, p) for t in [topic, *others.split(",")] for p in known.topics[t].partitions]
        self.partitions = len(known.topics[topic].partitions)
        insist(self.atomic.init_transactions, CALL)
        self.assign()

    def assign(self):
        """Takes some partitions, each from the beginning, from near its end, or from where this process was."""
        chosen = self.chance.sample(self.places, self.chance.randint(1, len(self.places)))
        before = {(p.topic, p.partition): p.offset for p in self.consumer.position(self.consumer.assignment()) if p.offset >= 0}
        places = []
        for place in chosen:
            low, high = insist(self.consumer.get_watermark_offsets, place, CALL)
            start = before.get((place.topic, place.partition))
            if start is None or self.chance.random() < 0.5:
                start = low if self.chance.random() < 0.1 else max(low, high - self.chance.randint(0, 300))
            places.append(TopicPartition(place.topic, place.partition, start))
        self.consumer.assign(places)
        self.anew = places

    def send(self, producer):
        self.count += 1
        partition, value = self.chance.randrange(self.partitions), f"{self.history.process}.{self.count}"
        self.history.write(f"{self.topic}/{partition}", value)
        self.history.flush()
        send(self.history, producer, self.topic, partition, value)

    def poll(self):
        for place in self.anew:
            self.history.say("assigned", key=f"{place.topic}/{place.partition}")
        self.anew = []
        for message in self.consumer.consume(self.chance.randint(1, 40), 0.02):
            if message.error():
                note(f"poll: {message.error()}")
            else:
                self.history.read(message)

    def sends(self):
        self.history.begin("send")
        for _ in range(self.chance.randint(1, 4)):
            self.send(self.plain)
        watch()
        while self.plain.flush(1):
            pass
        self.history.end("ok")

    def polls(self):
        self.history.begin("poll")
        self.poll()
        self.history.end("ok")

    def several(self):
        for _ in range(self.chance.randint(1, 4)):
            if self.chance.random() < 0.6:
                self.send(self.atomic)
            else:
                self.poll()
        if self.chance.random() < 0.15:
            insist(self.atomic.flush, CALL)
            raise Abort("on purpose")

    def step(self):
        watch()
        dice = self.chance.random()
        if dice < REASSIGN:
            self.assign()
        elif dice < 0.35:
            self.polls()
        elif dice < 0.55:
            self.sends()
        else:
            transaction(self.history, self.atomic, self.several)

    def run(self):
        while asked(0) is None:
            self.step()
        watch(60)
        self.consumer.close()
        calm()
