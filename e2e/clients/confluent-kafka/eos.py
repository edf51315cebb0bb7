"""The librdkafka side of `cargo xtask eos`: the programs `fill`, `work` and `read` of e2e/exactly-once.md."""

import faulthandler
import json
import random
import select
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

BATCH = 20  # records in one transaction, at most
CALL = 3  # seconds that one call to the broker may take before it is made again
FATAL = 3  # exit code of a worker whose client cannot go on: it is started anew

# What passes by itself while a broker is away or just back.
PASSING = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
}


class Abort(Exception):
    """The transaction has to be aborted; the client goes on."""


def say(**event):
    sys.stdout.write(json.dumps(event) + "\n")


def note(text):
    print(text, file=sys.stderr, flush=True)


def watch(seconds=4 * CALL):
    """Ends the program when it does not come back here in time: a call that hangs must not stop the pipeline."""
    faulthandler.dump_traceback_later(seconds, exit=True)


def common(bootstrap):
    return {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "retry.backoff.ms": 20,
        "topic.metadata.refresh.fast.interval.ms": 50,
    }


def asked(timeout):
    """A line that came on stdin, None when there is none yet, "" when stdin is closed."""
    ready, _, _ = select.select([sys.stdin.fileno()], [], [], timeout)
    return sys.stdin.buffer.readline().decode() if ready else None


def fill(bootstrap, topic, partitions):
    """Produces unique values idempotently, as many as each line asks for, until stdin is closed."""

    def delivered(error, message):
        if error:
            say(e="unknown", v=message.value().decode(), why=str(error))
        else:
            say(e="ack", p=message.partition(), o=message.offset(), v=message.value().decode())

    settings = {"enable.idempotence": True, "message.timeout.ms": 0, "linger.ms": 2, "queue.buffering.max.messages": 1000000}
    producer = Producer(common(bootstrap) | settings)
    count = 0
    while (line := asked(0.005)) != "":
        for _ in range(int(line or 0)):
            producer.produce(topic, f"v{count}", partition=count % int(partitions), on_delivery=delivered)
            count += 1
        producer.poll(0)
        sys.stdout.flush()
    while producer.flush(1):
        pass


class Worker:
    """Consume, transform, produce: each batch and the offsets behind it in one transaction."""

    def __init__(self, bootstrap, source, target, group, slot, static, seed):
        self.target = target
        self.chance = random.Random(f"{seed} {slot}")
        self.batch = []
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
        transactional = {
            "transactional.id": f"{group}-{slot}",
            "transaction.timeout.ms": 20000,
            "linger.ms": 0,
            # After all brokers were away librdkafka 2.16 by default drops what it knows of them, and then waits forever in
            # send_offsets_to_transaction for the handle of the group coordinator that it has dropped.
            "metadata.recovery.strategy": "none",
        }
        self.producer = Producer(common(bootstrap) | transactional)
        self.partitions = len(self.producer.list_topics(target, 30).topics[target].partitions)
        self.insist(self.producer.init_transactions, CALL)
        # A batch whose partitions went away in the middle of polling belongs to somebody else by now.
        self.consumer.subscribe([source], on_assign=self.forget, on_revoke=self.forget, on_lost=self.forget)

    def forget(self, *_):
        self.batch.clear()

    def insist(self, call, *arguments):
        """Repeats a call while that may help; says with the exception what to do otherwise."""
        while True:
            watch()
            try:
                return call(*arguments)
            except KafkaException as e:
                error = e.args[0]
                if error.retriable() or error.code() in PASSING:
                    note(f"{call.__name__}: {error}, once more")
                    time.sleep(0.01)
                elif error.txn_requires_abort():
                    raise Abort(f"{call.__name__}: {error}") from e
                else:
                    raise

    def poll(self):
        """Fills the batch until it is full or nothing more is at hand."""
        wait = 0.2
        while len(self.batch) < BATCH:
            message = self.consumer.poll(wait)
            if message is None:
                return
            if message.error():
                note(f"poll: {message.error()}")
                continue
            self.batch.append(message)
            wait = 0.002

    def transact(self):
        self.insist(self.producer.begin_transaction)
        ends = {}
        for m in self.batch:
            text = f"{m.partition()} {m.offset()} {m.value().decode()}"
            self.producer.produce(self.target, text, partition=m.offset() % self.partitions)
            ends[m.topic(), m.partition()] = m.offset() + 1
            say(e="seen", p=m.partition(), o=m.offset(), v=m.value().decode())
        sys.stdout.flush()
        offsets = [TopicPartition(topic, p, o) for (topic, p), o in ends.items()]
        member = self.consumer.consumer_group_metadata()
        self.insist(self.producer.send_offsets_to_transaction, offsets, member, CALL)
        if self.chance.random() < 0.1:
            self.insist(self.producer.flush, CALL)
            raise Abort("on purpose")
        self.insist(self.producer.commit_transaction, CALL)
        say(e="commit", n=len(self.batch))

    def rewind(self):
        """Back to the committed offsets, wherever the consumer is."""
        places = self.insist(self.consumer.committed, self.consumer.assignment(), CALL)
        for place in places:
            if place.error:
                raise KafkaException(place.error)
            place.offset = OFFSET_BEGINNING if place.offset < 0 else place.offset
        self.consumer.assign(places)

    def step(self):
        watch()
        self.batch.clear()
        self.poll()
        if not self.batch:
            return
        try:
            self.transact()
        except Abort as why:
            say(e="abort", why=str(why))
            self.insist(self.producer.abort_transaction, CALL)
            self.rewind()
        sys.stdout.flush()

    def run(self):
        while asked(0) is None:
            self.step()
        watch(60)
        self.consumer.close()
        faulthandler.cancel_dump_traceback_later()


def work(*arguments):
    try:
        Worker(*arguments).run()
    except (KafkaException, Abort) as e:
        note(f"cannot go on: {e}")
        say(e="fatal", why=str(e))
        sys.stdout.flush()
        sys.exit(FATAL)


def ends(bootstrap, topic, level):
    """The latest offset of each partition for readers of this isolation level."""
    admin = AdminClient(common(bootstrap))
    partitions = admin.list_topics(topic, 30).topics[topic].partitions
    asked_for = {TopicPartition(topic, p): OffsetSpec.latest() for p in partitions}
    found = admin.list_offsets(asked_for, isolation_level=level)
    return {place.partition: future.result(30).offset for place, future in found.items()}


def read(bootstrap, topic):
    """Everything a read_committed reader sees, to the last stable offset."""
    stable = ends(bootstrap, topic, IsolationLevel.READ_COMMITTED)
    for p, high in ends(bootstrap, topic, IsolationLevel.READ_UNCOMMITTED).items():
        say(e="end", p=p, high=high, stable=stable[p])
    settings = {
        "group.id": "nobody",
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
            say(e="record", p=message.partition(), o=message.offset(), v=message.value().decode())
    consumer.close()


if __name__ == "__main__":
    {"fill": fill, "work": work, "read": read}[sys.argv[1]](*sys.argv[2:])
