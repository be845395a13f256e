package graphmill.stack;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.neo4j.dbms.api.DatabaseManagementService;
import org.neo4j.dbms.api.DatabaseManagementServiceBuilder;

/**
 * Starts Neo4j Community with the neo4j.conf of the directory given, sets the password of the user
 * neo4j to what the file "password" there holds, and prints READY.
 *
 * <p>The published artifacts hold the database and its Bolt server, but not the program that
 * Neo4j's own distribution starts, so this is that program. The password comes by a file because a
 * command line can be read by everybody on the machine.
 */
public final class Neo4jMain {
    private Neo4jMain() {}

    public static void main(String[] args) throws Exception {
        Path directory = Path.of(args[0]);
        ParentWatch.start(directory);
        DatabaseManagementService dbms = new DatabaseManagementServiceBuilder(directory.resolve("data"))
                .loadPropertiesFromFile(directory.resolve("neo4j.conf"))
                .build();
        Runtime.getRuntime().addShutdownHook(new Thread(dbms::shutdown, "shutdown"));
        String password = Files.readString(directory.resolve("password")).strip();
        dbms.database("system").executeTransactionally(
                "ALTER USER neo4j SET PASSWORD $password CHANGE NOT REQUIRED",
                Map.of("password", password));
        if (!dbms.database("neo4j").isAvailable(60_000)) {
            System.err.println("the database neo4j is not available after 60 s");
            System.exit(1);
        }
        System.out.println("READY");
        Thread.currentThread().join();
    }
}
