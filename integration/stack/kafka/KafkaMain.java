package graphmill.stack;

import java.nio.file.Path;

/** Starts a Kafka broker with the server.properties of the directory given. */
public final class KafkaMain {
    private KafkaMain() {}

    public static void main(String[] args) {
        Path directory = Path.of(args[0]);
        ParentWatch.start(directory);
        kafka.Kafka.main(new String[] {directory.resolve("server.properties").toString()});
    }
}
