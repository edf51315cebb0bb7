import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** What came of it, as a read_committed reader sees it. */
final class Look implements AutoCloseable {
    private static final Duration POLL = Duration.ofMillis(100);
    /** Longer than a transaction that was left behind takes to time out. */
    private static final long PATIENCE = Duration.ofSeconds(40).toNanos();

    private final Admin admin;
    private final KafkaConsumer<byte[], String> consumer;

    private Look(String bootstrap) {
        admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap));
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed",
            "enable.auto.commit", false, "auto.offset.reset", "earliest", "fetch.max.wait.ms", 50);
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new StringDeserializer());
    }

    @Override
    public void close() {
        consumer.close();
        admin.close();
    }

    /** drain BOOTSTRAP ORDERS: waits until each output has a record for each order; ends also when no more come for a while. */
    static void drain(String bootstrap, long orders) throws Exception {
        try (Look look = new Look(bootstrap)) {
            look.from(look.partitions(List.of(Shop.TOTALS, Shop.WINDOWS)));
            Map<String, Long> there = new HashMap<>();
            long grown = System.nanoTime();
            while (Stream.of(Shop.TOTALS, Shop.WINDOWS).anyMatch(topic -> there.getOrDefault(topic, 0L) < orders)) {
                var records = look.consumer.poll(POLL);
                records.forEach(record -> there.merge(record.topic(), 1L, Long::sum));
                grown = records.isEmpty() ? grown : System.nanoTime();
                if (System.nanoTime() - grown > PATIENCE) {
                    System.err.println("no more than " + there);
                    return;
                }
            }
        }
    }

    /** look BOOTSTRAP ID: every record of every topic, where the partitions end, what the application committed, its own topics. */
    static void run(String bootstrap, String id) throws Exception {
        try (Look look = new Look(bootstrap)) {
            List<String> own = look.admin.listTopics().names().get().stream().filter(name -> name.startsWith(id + "-")).sorted().toList();
            List<String> all = Stream.concat(Stream.of(Shop.ORDERS, Shop.PAYMENTS, Shop.TOTALS, Shop.WINDOWS),
                own.stream().filter(name -> name.endsWith("-changelog"))).toList();
            look.read(look.partitions(all));
            for (String topic : own) {
                look.describe(topic);
            }
            look.admin.listConsumerGroupOffsets(id).partitionsToOffsetAndMetadata().get().forEach((place, offset) ->
                Say.place("committed", place.topic(), place.partition(), offset.offset(), ""));
        }
    }

    private List<TopicPartition> partitions(List<String> topics) throws Exception {
        return admin.describeTopics(topics).allTopicNames().get().values().stream()
            .flatMap(topic -> topic.partitions().stream().map(p -> new TopicPartition(topic.name(), p.partition()))).toList();
    }

    private void from(List<TopicPartition> places) {
        consumer.assign(places);
        consumer.seekToBeginning(places);
    }

    private Map<TopicPartition, Long> offsets(List<TopicPartition> places, OffsetSpec spec, IsolationLevel level) throws Exception {
        Map<TopicPartition, OffsetSpec> asked = places.stream().collect(Collectors.toMap(place -> place, place -> spec));
        Map<TopicPartition, Long> found = new HashMap<>();
        admin.listOffsets(asked, new ListOffsetsOptions(level)).all().get().forEach((place, at) -> found.put(place, at.offset()));
        return found;
    }

    private void read(List<TopicPartition> places) throws Exception {
        long deadline = System.nanoTime() + PATIENCE;
        Map<TopicPartition, Long> high;
        Map<TopicPartition, Long> stable;
        do {
            high = offsets(places, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED);
            stable = offsets(places, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED);
            Thread.sleep(20);
        } while (!high.equals(stable) && System.nanoTime() < deadline);
        from(places);
        Map<TopicPartition, Long> missing = new HashMap<>(stable);
        deadline = System.nanoTime() + PATIENCE;
        while (!missing.isEmpty()) {
            for (ConsumerRecord<byte[], String> r : consumer.poll(POLL)) {
                Say.place("record", r.topic(), r.partition(), r.offset(), String.valueOf(r.value()));
            }
            missing.entrySet().removeIf(place -> consumer.position(place.getKey()) >= place.getValue());
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("not read to the end: " + missing);
            }
        }
        for (TopicPartition place : places) {
            Say.place("high", place.topic(), place.partition(), high.get(place), "");
            Say.place("stable", place.topic(), place.partition(), stable.get(place), "");
        }
    }

    /** "NAME CLEANUP-POLICY FIRST-OFFSETS", the last one summed over the partitions. */
    private void describe(String topic) throws Exception {
        long first = offsets(partitions(List.of(topic)), OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
            .values().stream().mapToLong(Long::longValue).sum();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        String policy = admin.describeConfigs(List.of(resource)).all().get().get(resource).get("cleanup.policy").value();
        Say.line("topic", "v", topic + " " + policy + " " + first);
    }
}
