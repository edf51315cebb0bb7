import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;

/** The admin scenario. */
final class AdminCalls {
    private final Main.Env env;
    private final Admin admin;
    private final String topic;

    private AdminCalls(Main.Env env, Admin admin) {
        this.env = env;
        this.admin = admin;
        this.topic = env.runId();
    }

    static String run(Main.Env env) throws Exception {
        try (Admin admin = Kit.admin(env)) {
            AdminCalls calls = new AdminCalls(env, admin);
            calls.createAndDescribe();
            calls.configs();
            calls.partitions();
            calls.offsetsAndGroup();
            calls.deleteTopic();
        }
        return "";
    }

    private void createAndDescribe() throws Exception {
        Kit.create(env, topic, 2, Map.of("retention.ms", "3600000"));
        try {
            Kit.create(env, topic, 2);
            Kit.check(false, "the topic was created twice");
        } catch (ExecutionException error) {
            Kit.check(error.getCause() instanceof TopicExistsException, "second creation: " + error.getCause());
        }
        Kit.until("2 partitions", () -> describe().partitions().size() == 2);
        Set<Integer> brokers = admin.describeCluster().nodes().get().stream().map(Node::id).collect(Collectors.toSet());
        for (TopicPartitionInfo p : describe().partitions()) {
            Kit.check(brokers.contains(p.leader().id()), "a leader that is no broker");
            Kit.equal(List.of(p.replicas().size(), p.isr().size()), List.of(1, 1), "replicas and in-sync replicas");
        }
    }

    private TopicDescription describe() throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private ConfigEntry config(String name) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
    }

    private void configs() throws Exception {
        Kit.equal(config("retention.ms").value(), "3600000", "retention.ms");
        Kit.check(config("segment.bytes").isDefault(), "segment.bytes is not shown as a default");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        List<AlterConfigOp> changes = List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "7200000"), AlterConfigOp.OpType.SET),
            new AlterConfigOp(new ConfigEntry("max.message.bytes", "500000"), AlterConfigOp.OpType.SET));
        admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
        Kit.until("altered configs", () -> config("retention.ms").value().equals("7200000"));
        Kit.equal(config("max.message.bytes").value(), "500000", "max.message.bytes");
    }

    private void partitions() throws Exception {
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get();
        Kit.until("4 partitions", () -> describe().partitions().size() == 4);
        Kit.check(admin.listTopics().names().get().contains(topic), "the topic is not listed");
    }

    private void offsetsAndGroup() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = Kit.producer(env, Map.of())) {
            Kit.Sender sender = new Kit.Sender(producer, topic);
            sender.numbers(0, 10, 1);
            sender.flush();
        }
        Kit.equal(offset(admin, topic, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED), 0L, "earliest");
        Kit.equal(offset(admin, topic, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED), 10L, "latest");
        String group = topic + "-g";
        TopicPartition first = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = Kit.consumer(env, Map.of("group.id", group))) {
            consumer.subscribe(List.of(topic));
            Kit.until("an assignment", () -> {
                consumer.poll(Kit.POLL);
                return !consumer.assignment().isEmpty();
            });
            consumer.commitSync(Map.of(first, new OffsetAndMetadata(5)));
        }
        Kit.check(listed(group), "the group is not listed");
        ConsumerGroupDescription described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        Kit.equal(described.groupState(), GroupState.EMPTY, "the group's state");
        Kit.equal(described.members().size(), 0, "the group's members");
        OffsetAndMetadata committed =
            admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(first);
        Kit.equal(committed.offset(), 5L, "the group's offset");
        admin.deleteConsumerGroups(List.of(group)).all().get();
        Kit.check(!listed(group), "the group is still listed");
        admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(4))).all().get();
        long earliest = offset(admin, topic, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED);
        Kit.equal(earliest, 4L, "earliest after deleting records");
    }

    private boolean listed(String group) throws Exception {
        return admin.listGroups().all().get().stream().anyMatch(g -> g.groupId().equals(group));
    }

    static long offset(Admin admin, String topic, OffsetSpec spec, IsolationLevel isolation) throws Exception {
        TopicPartition first = new TopicPartition(topic, 0);
        return admin.listOffsets(Map.of(first, spec), new ListOffsetsOptions(isolation)).all().get().get(first).offset();
    }

    private void deleteTopic() throws Exception {
        admin.deleteTopics(List.of(topic)).all().get();
        Kit.until("the topic is gone", () -> !admin.listTopics().names().get().contains(topic));
    }
}
