package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	neo4jImage     = "neo4j:5.26-community"
	engineLimit    = 10 * time.Second // for an answer of Docker's engine
	containerLimit = 10 * time.Minute // to fetch the image and start it
	boltLimit      = 2 * time.Minute  // until the database answers
	pollInterval   = 500 * time.Millisecond
)

// startNeo4jInDocker starts a container that is removed when the demo ends.
func (d *demo) startNeo4jInDocker(ctx context.Context) error {
	if _, err := exec.LookPath("docker"); err != nil {
		return errors.New("docker is not installed")
	}
	if _, err := docker(ctx, engineLimit, nil, "info", "--format", "{{.ServerVersion}}"); err != nil {
		return errors.New("docker is installed, but its engine does not answer")
	}
	password := rand.Text()
	passwordFile, err := d.writePassword(password)
	if err != nil {
		return err
	}
	d.say("  starting %s in Docker; the first time its image is fetched", neo4jImage)
	begin := time.Now()
	// The variable is named and not given on the command line, which everybody
	// on this machine can read.
	id, err := docker(ctx, containerLimit, []string{"NEO4J_AUTH=neo4j/" + password},
		"run", "--detach", "--rm", "--publish", "127.0.0.1::7687", "--env", "NEO4J_AUTH", neo4jImage)
	if err != nil {
		return err
	}
	remove := func() error {
		_, err := docker(context.WithoutCancel(ctx), time.Minute, nil, "rm", "--force", id)
		return err
	}
	address, err := docker(ctx, engineLimit, nil, "port", id, "7687/tcp")
	if err != nil {
		return errors.Join(err, remove())
	}
	g := graph{uri: "bolt://" + address, user: "neo4j", passwordFile: passwordFile, own: true}
	if err := g.awaitBolt(ctx, boltLimit); err != nil {
		return errors.Join(err, remove())
	}
	d.onEnd(remove)
	d.graph = g
	d.say("  a real Neo4j in Docker, at %s, after %s", g.uri, seconds(begin))
	return nil
}

// docker runs a command of Docker's client and returns the last line of what it
// printed.
func docker(ctx context.Context, limit time.Duration, env []string, args ...string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := command(limited, "docker", args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", args[0], err, lastLine(stderr.String()))
	}
	return lastLine(string(out)), nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
