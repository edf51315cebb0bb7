// Writes the same keyed data to a broker, waits for its cleaner, and prints what a reader of committed data then sees.
// What is written follows from a seed alone, and so do all offsets: two brokers print the same lines.

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Compaction {
    static String topic;
    static TopicPartition place;
    static final int KEYS = 40;

    public static void main(String[] args) throws Exception {
        String broker = args[0];
        long seed = Long.parseLong(args[1]);
        long retention = Long.parseLong(args[2]);
        topic = "table-" + seed;
        place = new TopicPartition(topic, 0);
        create(broker, retention);
        Map<String, String> expected = new TreeMap<>();
        Random random = new Random(seed);
        for (int round = 0; round < 8; round++) {
            write(broker, random, round, expected);
            Thread.sleep(250);
            // The first batch of a new segment in Kafka, and the end of what is active.
            plain(broker, List.of(new ProducerRecord<>(topic, "roll", "round " + round)));
        }
        Thread.sleep(250);
        plain(broker, List.of(new ProducerRecord<>(topic, "end", "of it")));
        List<String> before = List.of();
        long until = System.currentTimeMillis() + 180_000;
        for (int same = 0; same < 3 && System.currentTimeMillis() < until; ) {
            Thread.sleep(5000);
            List<String> lines = read(broker, expected);
            same = lines.equals(before) && lines.size() < 3 * KEYS ? same + 1 : 0;
            before = lines;
        }
        before.forEach(System.out::println);
    }

    static void create(String broker, long retention) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker))) {
            Map<String, String> configs = Map.of(
                "cleanup.policy", "compact", "segment.ms", "200", "min.cleanable.dirty.ratio", "0.01",
                "delete.retention.ms", Long.toString(retention));
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1).configs(configs))).all().get();
        }
    }

    static Properties producing(String broker) {
        Properties config = new Properties();
        config.put("bootstrap.servers", broker);
        config.put("key.serializer", StringSerializer.class.getName());
        config.put("value.serializer", StringSerializer.class.getName());
        config.put("linger.ms", "1000");
        return config;
    }

    static void plain(String broker, List<ProducerRecord<String, String>> records) {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(producing(broker))) {
            records.forEach(producer::send);
        }
    }

    static void write(String broker, Random random, int round, Map<String, String> expected) {
        Properties config = producing(broker);
        config.put("transactional.id", "writer-" + round % 2);
        config.put("compression.type", List.of("none", "lz4", "zstd", "gzip").get(round % 4));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            producer.initTransactions();
            for (int number = 0; number < 12; number++) {
                producer.beginTransaction();
                Map<String, String> written = new TreeMap<>();
                int records = 1 + random.nextInt(5);
                for (int record = 0; record < records; record++) {
                    String key = "k" + random.nextInt(KEYS);
                    String value = random.nextInt(4) == 0 ? null : "v" + round + "." + number + "." + record;
                    producer.send(new ProducerRecord<>(topic, key, value));
                    written.put(key, value == null ? "" : value);
                }
                producer.flush();
                if (random.nextInt(3) == 0) {
                    producer.abortTransaction();
                    continue;
                }
                producer.commitTransaction();
                expected.putAll(written);
            }
        }
    }

    /** From the first offset to the last; fails if a key has another value than was committed last. */
    static List<String> read(String broker, Map<String, String> expected) {
        Map<String, Object> config = Map.of("bootstrap.servers", broker, "isolation.level", "read_committed");
        Map<String, String> table = new TreeMap<>();
        List<String> lines = new java.util.ArrayList<>();
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            long end = consumer.endOffsets(List.of(place)).get(place);
            while (consumer.position(place) < end) {
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    lines.add(record.offset() + " " + record.key() + " " + record.value());
                    table.put(record.key(), record.value() == null ? "" : record.value());
                }
            }
        }
        for (var entry : expected.entrySet()) {
            String found = table.getOrDefault(entry.getKey(), "");
            if (!found.equals(entry.getValue())) {
                throw new IllegalStateException(entry + " is read as '" + found + "'");
            }
        }
        return lines;
    }
}
