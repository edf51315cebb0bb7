import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeader;

/** Producing and consuming without groups and transactions. */
final class Plain {
    private static final int COUNT = 300;
    private static final byte[] BINARY = {0, (byte) 0xff, (byte) 0x80};

    private Plain() {}

    static ProducerRecord<byte[], byte[]> sample(String topic, int i, long start) {
        byte[] key = i % 10 == 0 ? null : Kit.bytes("key-" + i);
        byte[] value = switch (i % 10) {
            case 1 -> null;
            case 2 -> new byte[0];
            default -> Kit.bytes("value-" + i + "-" + "x".repeat(100));
        };
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, i % 3, start + i, key, value);
        record.headers().add(new RecordHeader("n", Kit.bytes(Integer.toString(i))));
        record.headers().add(new RecordHeader("bin", BINARY));
        return record;
    }

    static String produceConsume(Main.Env env, String codec) throws Exception {
        Kit.create(env, env.runId(), 3);
        long start = System.currentTimeMillis();
        try (KafkaProducer<byte[], byte[]> producer = Kit.producer(env, Map.of("compression.type", codec))) {
            Kit.Sender sender = new Kit.Sender(producer, env.runId());
            IntStream.range(0, COUNT).forEach(i -> sender.send(sample(env.runId(), i, start)));
            List<RecordMetadata> acks = sender.flush();
            for (int i = 0; i < COUNT; i++) {
                RecordMetadata ack = acks.get(i);
                Kit.equal(List.of(ack.partition(), ack.offset()), List.of(i % 3, i / 3L), "acknowledgement " + i);
            }
        }
        try (Kit.Reader reader = new Kit.Reader(env, env.runId(), 3, "read_committed")) {
            reader.until("all records", () -> reader.records.size() >= COUNT);
            Kit.equal(reader.records.size(), COUNT, "records read");
            for (int p = 0; p < 3; p++) {
                int partition = p;
                List<ConsumerRecord<byte[], byte[]>> mine =
                    reader.records.stream().filter(r -> r.partition() == partition).toList();
                for (int offset = 0; offset < COUNT / 3; offset++) {
                    compare(mine.get(offset), sample(env.runId(), offset * 3 + p, start), offset);
                }
            }
        }
        return "";
    }

    private static void compare(ConsumerRecord<byte[], byte[]> seen, ProducerRecord<byte[], byte[]> wanted, long offset) {
        String what = "record " + seen.partition() + "/" + offset;
        Kit.equal(seen.offset(), offset, what + ", offset");
        Kit.check(Arrays.equals(seen.key(), wanted.key()), what + ", key");
        Kit.check(Arrays.equals(seen.value(), wanted.value()), what + ", value");
        Kit.equal(seen.headers(), wanted.headers(), what + ", headers");
        Kit.equal(seen.timestamp(), wanted.timestamp(), what + ", timestamp");
    }

    static String idempotentReconnect(Main.Env env) throws Exception {
        Kit.create(env, env.runId(), 2);
        try (KafkaProducer<byte[], byte[]> producer = Kit.producer(env, Map.of("enable.idempotence", true))) {
            Kit.Sender sender = new Kit.Sender(producer, env.runId());
            sender.numbers(0, 100, 2);
            sender.flush();
            int hits = Kit.proxy("hits");
            Kit.check(Kit.proxy("lose") >= 1, "no connection to lose an answer on");
            sender.numbers(100, 200, 2);
            sender.flush();
            Kit.check(Kit.proxy("hits") > hits, "no answer was lost");
            sender.numbers(200, 250, 2);
            Kit.proxy("drop");
            sender.numbers(250, 300, 2);
            sender.flush();
            sender.send(0, "end");
            sender.send(1, "end");
            sender.flush();
        }
        Map<Integer, List<String>> values = Kit.readToEnd(env, env.runId(), 2, "read_committed");
        for (int p = 0; p < 2; p++) {
            int partition = p;
            Stream<String> numbers = IntStream.range(0, 150).mapToObj(n -> Integer.toString(n * 2 + partition));
            List<String> wanted = new ArrayList<>(numbers.toList());
            wanted.add("end");
            Kit.equal(values.get(p), wanted, "partition " + p);
        }
        return "";
    }
}
