import java.util.Map;
import java.util.concurrent.ExecutionException;

/** The contract of e2e/README.md: one scenario, one JSON line, an exit code. */
public final class Main {
    interface Scenario {
        /** Returns the detail of the pass, which may be empty. */
        String run(Env env) throws Exception;
    }

    /** A scenario's arguments. */
    record Env(String bootstrap, String runId) {}

    static final class Failed extends RuntimeException {
        Failed(String message) {
            super(message);
        }
    }

    private static final Map<String, Scenario> SCENARIOS = Map.ofEntries(
        Map.entry("produce-consume-none", env -> Plain.produceConsume(env, "none")),
        Map.entry("produce-consume-gzip", env -> Plain.produceConsume(env, "gzip")),
        Map.entry("produce-consume-snappy", env -> Plain.produceConsume(env, "snappy")),
        Map.entry("produce-consume-lz4", env -> Plain.produceConsume(env, "lz4")),
        Map.entry("produce-consume-zstd", env -> Plain.produceConsume(env, "zstd")),
        Map.entry("idempotent-reconnect", Plain::idempotentReconnect),
        Map.entry("admin", AdminCalls::run),
        Map.entry("group-rebalance", Groups::rebalance),
        Map.entry("static-member", Groups::staticMember),
        Map.entry("txn-commit-abort", Transactions::commitAbort),
        Map.entry("ctp", Transactions::consumeTransformProduce),
        Map.entry("zombie-fenced", Transactions::zombieFenced),
        Map.entry("read-committed-open", Transactions::readCommittedOpen));

    public static void main(String[] words) {
        Scenario scenario = SCENARIOS.get(words[1]);
        String result = "pass";
        String detail;
        try {
            if (scenario == null) {
                result = "cannot";
                detail = "unknown scenario";
            } else {
                detail = scenario.run(new Env(words[0], words[2]));
            }
        } catch (Throwable thrown) {
            thrown.printStackTrace();
            result = "fail";
            detail = (thrown instanceof ExecutionException ? thrown.getCause() : thrown).toString();
        }
        System.out.println("{\"result\":\"" + result + "\",\"detail\":\"" + escaped(detail) + "\"}");
        System.out.flush();
        // Client threads that still retry must not keep the process alive.
        Runtime.getRuntime().halt(result.equals("fail") ? 1 : 0);
    }

    private static String escaped(String text) {
        StringBuilder out = new StringBuilder();
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else {
                out.append(c < ' ' ? ' ' : c);
            }
        }
        return out.toString();
    }
}
