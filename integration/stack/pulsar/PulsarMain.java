package graphmill.stack;

import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.apache.pulsar.PulsarStandaloneStarter;
import org.apache.pulsar.metadata.api.MetadataStore;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.MetadataStoreFactory;

/**
 * Starts Pulsar standalone (broker, bookie and metadata in one process) with the standalone.conf of
 * the directory given, and prints PULSAR IS UP once it has made its default namespace.
 */
public final class PulsarMain {
    /** Relative to the working directory, as all paths of data: see main. */
    private static final String METADATA_URL = "rocksdb:data/metadata";

    /** Where BookKeeper has the bookies that are up, those that only read in the first. */
    private static final List<String> BOOKIES = List.of("/ledgers/available/readonly", "/ledgers/available");

    private PulsarMain() {}

    public static void main(String[] args) throws Exception {
        Path directory = Path.of(args[0]);
        ParentWatch.start(directory);
        forgetKilledBookie();
        // The paths of data are relative to the working directory, since Pulsar makes URLs of them and
        // would stumble over a space or a comma in the directory's own name. A broker that cannot
        // start ends the JVM by itself.
        PulsarStandaloneStarter.main(new String[] {
            "--config", directory.resolve("standalone.conf").toString(),
            "--metadata-url", METADATA_URL,
            "--bookkeeper-dir", "data/bookkeeper",
            "--advertised-address", "127.0.0.1",
            "--no-functions-worker",
            "--no-stream-storage",
        });
        System.out.println("PULSAR IS UP");
    }

    /**
     * Takes the registration of a bookie that was killed out of the metadata. One that starts and finds
     * it deletes it, hears that a registration of its own name is gone, and deletes and makes its own
     * again without end (the comparison in ResourceLockImpl never finds the two equal, since
     * BookieServiceInfo has no equals: apache/pulsar#17759). Whoever wants a ledger while it is away is
     * told "Not enough non-faulty bookies available".
     */
    private static void forgetKilledBookie() throws Exception {
        try (MetadataStore store = MetadataStoreFactory.create(METADATA_URL, MetadataStoreConfig.builder().build())) {
            for (String bookies : BOOKIES) {
                // The store itself removes what belongs to a session that it knows to be over, when asked.
                for (String bookie : store.getChildren(bookies).join()) {
                    String path = bookies + "/" + bookie;
                    if (!BOOKIES.contains(path)) {
                        store.delete(path, Optional.empty()).join();
                    }
                }
            }
        }
    }
}
