import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;

/** Groups of the classic protocol. */
final class Groups {
    private static final Set<Integer> ALL = Set.of(0, 1, 2, 3);

    private Groups() {}

    /** A group member that polls and commits in its own thread. */
    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final Main.Env env;
        private final Map<String, Object> settings;
        final List<String> values = new CopyOnWriteArrayList<>();
        volatile Set<Integer> assigned = Set.of();
        volatile int rebalances;
        volatile RuntimeException error;
        private volatile boolean going = true;

        Member(Main.Env env, Map<String, Object> more) {
            this.env = env;
            settings = new TreeMap<>(more);
            settings.put("group.id", env.runId() + "-g");
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
            setDaemon(true);
            start();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            rebalances++;
            assigned = partitions.stream().map(TopicPartition::partition).collect(Collectors.toSet());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            rebalances++;
            assigned = Set.of();
        }

        @Override
        public void run() {
            try (KafkaConsumer<byte[], byte[]> consumer = Kit.consumer(env, settings)) {
                consumer.subscribe(List.of(env.runId()), this);
                while (going) {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Kit.POLL);
                    if (!records.isEmpty()) {
                        consumer.commitSync();
                    }
                    for (ConsumerRecord<byte[], byte[]> record : records) {
                        values.add(Kit.text(record.value()));
                    }
                }
            } catch (RuntimeException thrown) {
                System.err.println("member: " + thrown);
                error = thrown;
            }
        }

        void leave() throws InterruptedException {
            going = false;
            join(Kit.LIMIT.toMillis());
        }

        boolean failed() {
            if (error != null) {
                throw error;
            }
            return false;
        }
    }

    private static boolean shared(Member a, Member b) {
        Set<Integer> both = new HashSet<>(a.assigned);
        both.addAll(b.assigned);
        return !a.failed() && !b.failed() && a.assigned.size() == 2 && b.assigned.size() == 2 && both.equals(ALL);
    }

    static String rebalance(Main.Env env) throws Exception {
        Kit.create(env, env.runId(), 4);
        try (KafkaProducer<byte[], byte[]> producer = Kit.producer(env, Map.of())) {
            Kit.Sender sender = new Kit.Sender(producer, env.runId());
            sender.numbers(0, 80, 4);
            sender.flush();
            Member a = new Member(env, Map.of());
            Kit.until("A has read 80 records", () -> a.failed() || a.values.size() == 80);
            Kit.equal(a.assigned, ALL, "A's partitions");
            Member b = new Member(env, Map.of());
            Kit.until("2 partitions each", () -> shared(a, b));
            sender.numbers(80, 140, 4);
            sender.flush();
            Kit.until("60 more", () -> a.failed() || b.failed() || a.values.size() + b.values.size() >= 140);
            a.leave();
            Kit.until("B has all", () -> b.failed() || b.assigned.equals(ALL));
            sender.numbers(140, 200, 4);
            sender.flush();
            Kit.until("all records", () -> b.failed() || a.values.size() + b.values.size() >= 200);
            b.leave();
            List<String> values = new ArrayList<>(a.values);
            values.addAll(b.values);
            List<Integer> numbers = values.stream().map(Integer::valueOf).sorted().toList();
            Kit.equal(numbers, IntStream.range(0, 200).boxed().toList(), "records read");
        }
        Kit.equal(committed(env, env.runId() + "-g"), List.of(50L, 50L, 50L, 50L), "committed offsets");
        return "";
    }

    /** The committed offsets of a group in the order of partitions. */
    static List<Long> committed(Main.Env env, String group) throws Exception {
        try (Admin admin = Kit.admin(env)) {
            Map<TopicPartition, OffsetAndMetadata> found =
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            Map<Integer, Long> offsets = new TreeMap<>();
            found.forEach((partition, offset) -> offsets.put(partition.partition(), offset.offset()));
            return List.copyOf(offsets.values());
        }
    }

    static String staticMember(Main.Env env) throws Exception {
        Kit.create(env, env.runId(), 4);
        Map<String, Object> first = Map.of("group.instance.id", env.runId() + "-a");
        Map<String, Object> second = Map.of("group.instance.id", env.runId() + "-b");
        Member a = new Member(env, first);
        Member b = new Member(env, second);
        Kit.until("2 partitions each", () -> shared(a, b));
        Set<Integer> kept = new TreeSet<>(b.assigned);
        int rebalances = a.rebalances;
        b.leave();
        Member b2 = new Member(env, second);
        Kit.until("B2 has partitions", () -> b2.failed() || !b2.assigned.isEmpty());
        Kit.equal(new TreeSet<>(b2.assigned), kept, "B2's partitions");
        Member b3 = new Member(env, second);
        Kit.until("B3 has partitions", () -> b3.failed() || !b3.assigned.isEmpty());
        Kit.equal(new TreeSet<>(b3.assigned), kept, "B3's partitions");
        Kit.until("B2 is fenced", () -> b2.error != null);
        Kit.check(b2.error instanceof FencedInstanceIdException, "B2 got " + b2.error);
        Kit.equal(a.rebalances, rebalances, "A's rebalances");
        a.leave();
        b3.leave();
        return "";
    }
}
