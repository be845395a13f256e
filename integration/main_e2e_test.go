//go:build e2e

// The end-to-end tests: the real program against a real Kafka, a real Pulsar
// and a real Neo4j, which are started here, from Maven artifacts, and end with the tests.
package integration_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/neo4j/neo4j-go-driver/v5/neo4j"

	"github.com/graphmill/graphmill/integration/stack"
)

// world is what all tests share.
var world struct {
	dir    string // of this run: binaries, data directories, logs
	binary string
	kafka  *stack.Kafka
	pulsar *stack.Pulsar // started by the first test that asks for it
	neo4j  *stack.Neo4j
	driver neo4j.DriverWithContext
}

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the end-to-end tests cannot start:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if world.dir, err = os.MkdirTemp("", "graphmill-e2e-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(world.dir)
	if err := buildProgram(ctx); err != nil {
		return 0, err
	}
	if world.kafka, err = stack.StartKafka(ctx, stack.KafkaConfig{Log: os.Stderr}); err != nil {
		return 0, err
	}
	defer world.kafka.Close()
	if world.neo4j, err = stack.StartNeo4j(ctx, stack.Neo4jConfig{Log: os.Stderr}); err != nil {
		return 0, err
	}
	defer world.neo4j.Close()
	world.driver, err = neo4j.NewDriverWithContext(world.neo4j.URI(), neo4j.BasicAuth(world.neo4j.User(), world.neo4j.Password(), ""))
	if err != nil {
		return 0, err
	}
	defer world.driver.Close(ctx)
	defer stopPulsar()
	return m.Run(), nil
}

// buildProgram builds graphmill and its plugins, and the guest that misbehaves
// on request, as a user would have them: the plugins beside the binary.
func buildProgram(ctx context.Context) error {
	world.binary = filepath.Join(world.dir, "bin", "graphmill")
	wasm := []string{"GOOS=wasip1", "GOARCH=wasm"}
	for _, b := range []struct {
		dir string
		env []string
		arg []string
	}{
		{"..", nil, []string{"-o", world.binary, "./cmd/graphmill"}},
		{"../plugins", wasm, []string{"-buildmode=c-shared", "-ldflags=-s -w", "-o", pluginPath("cypher"), "./cypher"}},
		{"../plugins", wasm, []string{"-buildmode=c-shared", "-ldflags=-s -w", "-o", pluginPath("movies"), "./movies"}},
		{"testdata/fickle", wasm, []string{"-buildmode=c-shared", "-ldflags=-s -w", "-o", filepath.Join(world.dir, "fickle.wasm"), "."}},
	} {
		cmd := exec.CommandContext(ctx, "go", append([]string{"build"}, b.arg...)...)
		cmd.Dir = b.dir
		cmd.Env = append(os.Environ(), b.env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %v: %w\n%s", b.arg, err, out)
		}
	}
	return nil
}

// sized returns the size of a test: whole in make e2e-full, else a cut of it that
// shows the same in less time.
func sized(cut, whole int) int {
	if os.Getenv("GRAPHMILL_E2E_FULL") != "" {
		return whole
	}
	return cut
}

func pluginPath(name string) string { return filepath.Join(world.dir, "bin", "plugins", name+".wasm") }
