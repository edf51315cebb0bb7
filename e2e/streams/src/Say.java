/** One line of JSON on stdout for each thing that happened. */
final class Say {
    private Say() {}

    static void line(String event, String name, String text) {
        print("{\"e\":\"" + event + "\",\"" + name + "\":\"" + escaped(text) + "\"}");
    }

    static void count(String event, long count) {
        print("{\"e\":\"" + event + "\",\"n\":" + count + "}");
    }

    static void place(String event, String topic, int partition, long offset, String text) {
        print("{\"e\":\"" + event + "\",\"t\":\"" + topic + "\",\"p\":" + partition + ",\"o\":" + offset + ",\"v\":\"" + escaped(text) + "\"}");
    }

    private static synchronized void print(String line) {
        System.out.println(line);
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
