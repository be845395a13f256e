package graphmill.stack;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * Ends this JVM when the program that started it is gone, however it ended.
 *
 * <p>That program holds the other end of our standard input, so the end of the file means that it
 * no longer exists. The system property {@code graphmill.stack.watch} says what to do then:
 * {@code exit} shuts the server down in order, {@code remove} deletes its directory, which nobody
 * will ask for again, and halts. Without the property nothing is watched.
 */
final class ParentWatch {
    private ParentWatch() {}

    static void start(Path directory) {
        String mode = System.getProperty("graphmill.stack.watch");
        if (mode == null) {
            return;
        }
        Thread watch = new Thread(() -> {
            awaitEndOfInput();
            if (mode.equals("remove")) {
                remove(directory);
                Runtime.getRuntime().halt(0);
            }
            System.exit(0);
        }, "parent-watch");
        watch.setDaemon(true);
        watch.start();
    }

    private static void awaitEndOfInput() {
        try {
            InputStream in = System.in;
            while (in.read() != -1) {
                // Nothing is ever written to us.
            }
        } catch (IOException e) {
            // A broken pipe says the same as its end.
        }
    }

    /** The server still runs and may add a file while we delete, hence the rounds. */
    private static void remove(Path directory) {
        for (int round = 0; round < 5 && Files.exists(directory); round++) {
            try (Stream<Path> files = Files.walk(directory)) {
                List<Path> deepestFirst = files.sorted(Comparator.reverseOrder()).toList();
                for (Path file : deepestFirst) {
                    Files.deleteIfExists(file);
                }
            } catch (IOException | UncheckedIOException e) {
                // Another round.
            }
        }
    }
}
