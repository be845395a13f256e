// Package stack starts a real Kafka, a real Pulsar and a real Neo4j on this
// machine, for end-to-end tests and for trying things by hand. The servers come from their
// published Maven artifacts: no container engine and no installation is needed,
// only a JDK and Maven.
//
//	k, err := stack.StartKafka(ctx, stack.KafkaConfig{Log: os.Stderr})
//	defer k.Close()
//	client, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers()...))
//
// # What a server leaves behind
//
// Nothing. A server with a temporary directory removes it on Close. A server
// whose program is killed notices it by itself: its standard input is a pipe
// whose other end the program holds, so it reads the end of the file the moment
// the program is gone, removes the directory if that was a temporary one, and
// exits. No process id is polled, and none can be mistaken for another.
//
// # What is kept between runs
//
// The jars lie in Maven's own local repository. Which jars make up a server,
// and the small Java programs that start them, are kept in the user's cache
// directory under graphmill/stack, so that a second start asks neither Maven nor
// the compiler.
//
// Neo4j Community is under the GPL, Kafka and Pulsar are under the Apache
// licence. All run as processes of their own and are never linked into Graphmill
// or shipped with it.
package stack
