import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.BinaryNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.BaseRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;

/**
 * Writes one pseudo-random frame of every API, direction and version with Apache Kafka's own classes, and beside it the JSON
 * that Kafka's own converters make of it. The same classes and seed give the same file.
 *
 * Run by `cargo xtask schemas vectors`.
 */
public class Vectors {
    static long seed;
    static Random random;
    /** The records in the order in which they were made: Kafka's JSON leaves their bytes out. */
    static Deque<byte[]> made;

    public static void main(String[] args) throws Exception {
        seed = Long.parseLong(args[1]);
        List<String> lines = new ArrayList<>(List.of("api_key\tname\tdirection\tversion\tcorrelation_id\tclient_id\tjson\tframe_hex"));
        for (ApiMessageType type : ApiMessageType.values()) {
            for (short version = 0; version <= type.highestSupportedVersion(true); version++) {
                if (version >= type.lowestSupportedVersion()) {
                    lines.add(line(type, version, true));
                    lines.add(line(type, version, false));
                }
            }
        }
        Files.writeString(Path.of(args[0]), String.join("\n", lines) + "\n");
    }

    static String line(ApiMessageType type, short version, boolean request) throws Exception {
        random = new Random(seed + 1_000_003L * type.apiKey() + 2L * version + (request ? 1 : 0));
        made = new ArrayDeque<>();
        ApiMessage message = request ? type.newRequest() : type.newResponse();
        fill(message, (request ? type.requestSchemas() : type.responseSchemas())[version]);
        int correlationId = random.nextInt();
        String clientId = random.nextInt(4) == 0 ? null : text();
        short headerVersion = request ? type.requestHeaderVersion(version) : type.responseHeaderVersion(version);
        ApiMessage header = request
            ? new RequestHeaderData().setRequestApiKey(type.apiKey()).setRequestApiVersion(version)
                .setCorrelationId(correlationId).setClientId(clientId)
            : new ResponseHeaderData().setCorrelationId(correlationId);
        if (!request || headerVersion == 0) {
            clientId = "";
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = header.size(cache, headerVersion) + message.size(cache, version);
        ByteBuffer frame = ByteBuffer.allocate(4 + size);
        frame.putInt(size);
        header.write(new ByteBufferAccessor(frame), cache, headerVersion);
        message.write(new ByteBufferAccessor(frame), cache, version);
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        JsonNode json = (JsonNode) converter.getMethod("write", message.getClass(), short.class, boolean.class)
            .invoke(null, message, version, true);
        putRecords(json);
        return String.join("\t", String.valueOf(type.apiKey()), type.name, request ? "request" : "response",
            String.valueOf(version), String.valueOf(correlationId), clientId == null ? "null" : '"' + clientId + '"',
            json.toString(), HexFormat.of().formatHex(frame.array()));
    }

    /** Sets the fields that the version has, tagged ones every second time. */
    static void fill(Object message, Schema schema) throws Exception {
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                for (var field : tagged.fields().values()) {
                    if (random.nextBoolean()) {
                        set(message, field.name, field.type);
                    }
                }
            } else {
                set(message, bound.def.name, bound.def.type);
            }
        }
    }

    static void set(Object message, String name, Type type) throws Exception {
        Field field = find(message.getClass(), name);
        field.setAccessible(true);
        if (type.isNullable() && random.nextInt(3) == 0) {
            field.set(message, null);
        } else {
            field.set(message, value(field, type));
        }
    }

    static Field find(Class<?> type, String name) {
        for (Field field : type.getDeclaredFields()) {
            if (!Modifier.isStatic(field.getModifiers()) && field.getName().equalsIgnoreCase(name.replace("_", ""))) {
                return field;
            }
        }
        throw new IllegalStateException(type + " has no field " + name);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static Object value(Field field, Type type) throws Exception {
        if (type.isArray()) {
            Type element = type.arrayElementType().get();
            Class<?> inner = element(field);
            Collection list = List.class.isAssignableFrom(field.getType())
                ? new ArrayList() : (Collection) field.getType().getConstructor().newInstance();
            for (int left = random.nextInt(5) == 0 ? 0 : 1 + random.nextInt(2); left > 0; left--) {
                list.add(single(inner, element));
            }
            return list;
        }
        return single(field.getType(), type);
    }

    /** The class of an array's elements; collections with keys name it in their superclass. */
    static Class<?> element(Field field) {
        var generic = field.getGenericType() instanceof ParameterizedType own
            ? own : (ParameterizedType) field.getType().getGenericSuperclass();
        return (Class<?>) generic.getActualTypeArguments()[0];
    }

    static Object single(Class<?> java, Type type) throws Exception {
        if (type instanceof Schema schema) {
            Object struct = java.getConstructor().newInstance();
            fill(struct, schema);
            return struct;
        }
        if (java == boolean.class || java == Boolean.class) return random.nextBoolean();
        if (java == byte.class || java == Byte.class) return (byte) number(8);
        if (java == short.class || java == Short.class) return (short) number(16);
        if (java == int.class || java == Integer.class) return type == Type.UINT16 ? (int) number(16) & 0xffff : (int) number(32);
        if (java == long.class || java == Long.class) return type == Type.UNSIGNED_INT32 ? number(32) & 0xffffffffL : number(64);
        if (java == double.class || java == Double.class) return random.nextInt(3) * 1.1 - 1;
        if (java == String.class) return text();
        if (java == byte[].class) return bytes();
        if (java == ByteBuffer.class) return ByteBuffer.wrap(bytes());
        if (java == Uuid.class) return random.nextInt(3) == 0 ? Uuid.ZERO_UUID : new Uuid(random.nextLong(), random.nextLong());
        if (BaseRecords.class.isAssignableFrom(java)) return records();
        throw new IllegalStateException("no value of " + java + " for " + type);
    }

    /** A number of so many bits: often an end of the range, 0 or -1. */
    static long number(int bits) {
        return switch (random.nextInt(6)) {
            case 0 -> 0;
            case 1 -> -1;
            case 2 -> -1L << (bits - 1);
            case 3 -> ~(-1L << (bits - 1));
            default -> random.nextLong();
        };
    }

    static String text() {
        return switch (random.nextInt(5)) {
            case 0 -> "";
            case 1 -> "\u00e5ngstr\u00f6m";
            case 2 -> "\u65e5\u672c \ud83c\udf3b";
            case 3 -> "x".repeat(random.nextInt(20) == 0 ? 130 : 3);
            default -> "topic-" + random.nextInt(100);
        };
    }

    static byte[] bytes() {
        byte[] bytes = new byte[random.nextInt(3) * random.nextInt(9)];
        random.nextBytes(bytes);
        return bytes;
    }

    static MemoryRecords records() {
        SimpleRecord[] records = new SimpleRecord[1 + random.nextInt(2)];
        for (int i = 0; i < records.length; i++) {
            byte[] key = random.nextBoolean() ? null : text().getBytes(StandardCharsets.UTF_8);
            records[i] = new SimpleRecord(1_700_000_000_000L + random.nextInt(1000), key, bytes());
        }
        MemoryRecords batch = random.nextBoolean()
            ? MemoryRecords.withRecords(Compression.NONE, records)
            : MemoryRecords.withTransactionalRecords(Compression.NONE, random.nextInt(1000), (short) 3, 7, records);
        ByteBuffer buffer = batch.buffer();
        byte[] copy = new byte[buffer.remaining()];
        buffer.get(copy);
        made.add(copy);
        return batch;
    }

    static void putRecords(JsonNode node) {
        if (node instanceof ObjectNode object) {
            for (var field : object.properties()) {
                boolean empty = field.getValue() instanceof BinaryNode binary && binary.binaryValue().length == 0;
                if (empty && field.getKey().toLowerCase().endsWith("records")) {
                    field.setValue(BinaryNode.valueOf(made.remove()));
                }
            }
        }
        for (JsonNode child : node) {
            putRecords(child);
        }
    }
}
