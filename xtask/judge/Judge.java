import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Has Apache Kafka's own classes read what our files hold and write it again: every frame of the first file, every bare
 * message of the second. Each must come back byte for byte.
 *
 * Run by `cargo xtask schemas judge JAR`.
 */
public class Judge {
    static int agree = 0;
    static int differ = 0;

    public static void main(String[] files) throws Exception {
        for (String row : Files.readAllLines(Path.of(files[0])).stream().skip(1).toList()) {
            String[] columns = row.split("\t");
            short version = Short.parseShort(columns[3]);
            judge(row, () -> frame(Short.parseShort(columns[0]), columns, version));
        }
        for (String row : Files.readAllLines(Path.of(files[1])).stream().skip(1).toList()) {
            String[] columns = row.split("\t", -1);
            byte[] bytes = HexFormat.of().parseHex(columns[3]);
            judge(row, () -> comesBack(columns[0], columns[1], Short.parseShort(columns[2]), ByteBuffer.wrap(bytes)));
        }
        System.out.println(agree + " frames and messages come back from Apache Kafka's classes, " + differ + " do not");
        System.exit(differ == 0 ? 0 : 1);
    }

    interface Check {
        boolean holds() throws Exception;
    }

    static void judge(String row, Check check) {
        String why = "other bytes";
        try {
            if (check.holds()) {
                agree++;
                return;
            }
        } catch (Exception e) {
            why = e.toString();
        }
        differ++;
        System.out.println(row.substring(0, Math.min(row.length(), 60)) + ": " + why);
    }

    static boolean frame(short key, String[] columns, short version) throws Exception {
        ApiMessageType type = ApiMessageType.fromApiKey(key);
        ByteBuffer frame = ByteBuffer.wrap(HexFormat.of().parseHex(columns[5]));
        boolean request = columns[2].equals("request");
        if (frame.getInt() != frame.remaining()) {
            return false;
        }
        ApiMessage header = request ? new RequestHeaderData() : new ResponseHeaderData();
        short headerVersion = request ? type.requestHeaderVersion(version) : type.responseHeaderVersion(version);
        header.read(new ByteBufferAccessor(frame), headerVersion);
        return comesBack(columns[1], columns[2], version, frame);
    }

    static boolean comesBack(String name, String kind, short version, ByteBuffer bytes) throws Exception {
        String suffix = kind.equals("data") ? "" : "Data";
        Class<?> type = Class.forName("org.apache.kafka.common.message." + name + suffix);
        ApiMessage message = (ApiMessage) type.getConstructor().newInstance();
        byte[] original = Arrays.copyOfRange(bytes.array(), bytes.position(), bytes.limit());
        message.read(new ByteBufferAccessor(bytes), version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer again = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(again), cache, version);
        return !bytes.hasRemaining() && !again.hasRemaining() && Arrays.equals(again.array(), original);
    }
}
