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

    public static void main(String[] args) {
        Path directory = Path.of(args[0]);
        ParentWatch.start(directory);
        try {
            start(directory);
            System.out.println("READY");
            Thread.currentThread().join();
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(1); // the database's own threads would keep the JVM alive
        }
    }

    private static void start(Path directory) throws Exception {
        DatabaseManagementService dbms = new DatabaseManagementServiceBuilder(directory.resolve("data"))
                .loadPropertiesFromFile(directory.resolve("neo4j.conf"))
                .build();
        Runtime.getRuntime().addShutdownHook(new Thread(dbms::shutdown, "shutdown"));
        // OR REPLACE: a later start on the same data finds the user as it left him, and ALTER USER
        // refuses to set the password that he has.
        String password = Files.readString(directory.resolve("password")).strip();
        dbms.database("system").executeTransactionally(
                "CREATE OR REPLACE USER neo4j SET PASSWORD $password CHANGE NOT REQUIRED",
                Map.of("password", password));
        if (!dbms.database("neo4j").isAvailable(60_000)) {
            throw new IllegalStateException("the database neo4j is not available after 60 s");
        }
    }
}
