package graphmill.stack;

import java.nio.file.Path;
import org.apache.pulsar.PulsarStandaloneStarter;

/**
 * Starts Pulsar standalone (broker, bookie and metadata in one process) with the standalone.conf of
 * the directory given, and prints PULSAR IS UP once it has made its default namespace.
 */
public final class PulsarMain {
    private PulsarMain() {}

    public static void main(String[] args) throws Exception {
        Path directory = Path.of(args[0]);
        ParentWatch.start(directory);
        // The paths of data are relative to the working directory, since Pulsar makes URLs of them and
        // would stumble over a space or a comma in the directory's own name. A broker that cannot
        // start ends the JVM by itself.
        PulsarStandaloneStarter.main(new String[] {
            "--config", directory.resolve("standalone.conf").toString(),
            "--metadata-url", "rocksdb:data/metadata",
            "--bookkeeper-dir", "data/bookkeeper",
            "--advertised-address", "127.0.0.1",
            "--no-functions-worker",
            "--no-stream-storage",
        });
        System.out.println("PULSAR IS UP");
    }
}
