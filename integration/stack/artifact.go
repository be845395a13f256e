package stack

import (
	"context"
	"embed"
	"fmt"
	"io"
	"path/filepath"
	"time"
)

//go:embed java kafka neo4j pulsar
var embedded embed.FS

// artifact is what a server is made of: the pom that names its jars, and the
// Java sources of the program that starts it.
type artifact struct {
	name      string
	mainClass string
	pom       []byte
	sources   []source
}

type source struct {
	name    string // of the file: ParentWatch.java
	content []byte
}

// The names of the servers.
const (
	nameKafka  = "kafka"
	namePulsar = "pulsar"
	nameNeo4j  = "neo4j"
)

// Names returns the names of the servers, in the order in which they are best
// started.
func Names() []string { return []string{nameKafka, namePulsar, nameNeo4j} }

// loadArtifact reads the embedded parts of a server: NAME/pom.xml, its program
// and the source that all programs share.
func loadArtifact(name string) (artifact, error) {
	var program string
	switch name {
	case nameKafka:
		program = "KafkaMain"
	case namePulsar:
		program = "PulsarMain"
	case nameNeo4j:
		program = "Neo4jMain"
	default:
		return artifact{}, fmt.Errorf("there is no server %q", name)
	}
	a := artifact{name: name, mainClass: "graphmill.stack." + program}
	var err error
	if a.pom, err = embedded.ReadFile(name + "/pom.xml"); err != nil {
		return artifact{}, fmt.Errorf("read the embedded parts of %s: %w", name, err)
	}
	for _, path := range []string{name + "/" + program + ".java", "java/ParentWatch.java"} {
		content, err := embedded.ReadFile(path)
		if err != nil {
			return artifact{}, fmt.Errorf("read the embedded parts of %s: %w", name, err)
		}
		a.sources = append(a.sources, source{name: filepath.Base(path), content: content})
	}
	return a, nil
}

// program is what a start needs: the parts of a server on this machine.
type program struct {
	artifact
	java      string // path of the JVM
	classpath string
	jars      int
}

// build finds, fetches and compiles the parts of a server. What an earlier
// build has left is used again.
func build(ctx context.Context, name string, log *progress) (program, error) {
	a, err := loadArtifact(name)
	if err != nil {
		return program{}, err
	}
	java, err := findJava(ctx)
	if err != nil {
		return program{}, err
	}
	jars, err := resolve(ctx, a, log)
	if err != nil {
		return program{}, err
	}
	classes, err := compile(ctx, a, jars, log)
	if err != nil {
		return program{}, err
	}
	return program{artifact: a, java: java, classpath: classpath(append([]string{classes}, jars...)), jars: len(jars)}, nil
}

// Resolve fetches and compiles all that the named servers need, so that a later
// start needs no network and loses no time. Lines about it go to log, which may
// be nil.
func Resolve(ctx context.Context, log io.Writer, names ...string) error {
	for _, name := range names {
		p := newProgress(name, log)
		begin := time.Now()
		built, err := build(ctx, name, p)
		if err != nil {
			return err
		}
		p.printf("%d jars are there (%s)", built.jars, time.Since(begin).Round(100*time.Millisecond))
	}
	return nil
}
