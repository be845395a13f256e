package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	// mavenLimit is the time for one run of Maven: 245 MB over a slow line. A run
	// that is repeated goes on with the jars that are there already.
	mavenLimit    = 5 * time.Minute
	mavenAttempts = 3
	mavenGoal     = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
)

// resolve returns the jars of a server in the order of its class path. Maven is
// asked only where the cached answer is missing or names a jar that is gone.
func resolve(ctx context.Context, a artifact, log *progress) ([]string, error) {
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	cached := filepath.Join(dir, a.name+"-"+cacheKey(a.pom)+".classpath")
	if jars, ok := readClasspath(cached); ok {
		return jars, nil
	}
	unlock, err := lockCache(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if jars, ok := readClasspath(cached); ok { // another process was quicker
		return jars, nil
	}

	work, err := os.MkdirTemp(dir, workPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory for Maven: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	answer := filepath.Join(work, "classpath")
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), a.pom, 0o644); err != nil {
		return nil, fmt.Errorf("write the pom: %w", err)
	}
	err = log.during("resolving its jars with Maven, once", func() error { return runMaven(ctx, work, answer, log) })
	if err != nil {
		return nil, fmt.Errorf("resolve the jars of %s: %w", a.name, err)
	}
	jars, ok := readClasspath(answer)
	if !ok {
		return nil, fmt.Errorf("resolve the jars of %s: Maven's answer names no jars, or some that are not there", a.name)
	}
	if err := writeFileAtomic(cached, []byte(classpath(jars)), 0o644); err != nil {
		return nil, fmt.Errorf("keep the jars' names: %w", err)
	}
	return jars, nil
}

// classpath joins directories and jars as Java reads them.
func classpath(entries []string) string {
	return strings.Join(entries, string(os.PathListSeparator))
}

// readClasspath reads a class path; false where it is not there, or a jar of it
// is missing or empty.
func readClasspath(path string) ([]string, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	jars := strings.Split(strings.TrimSpace(string(b)), string(os.PathListSeparator))
	for _, jar := range jars {
		info, err := os.Stat(jar)
		if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
			return nil, false
		}
	}
	return jars, true
}

// runMaven asks Maven for the class path of the pom in dir. A hang and a broken
// download are tried again; any other answer is final.
func runMaven(ctx context.Context, dir, answer string, log *progress) error {
	mvn, err := findMaven()
	if err != nil {
		return err
	}
	args := []string{"-B", "-q", "-ntp", "-f", filepath.Join(dir, "pom.xml"), mavenGoal, "-Dmdep.outputFile=" + answer,
		// Without limits of its own, Maven waits 30 minutes for a silent server.
		"-Dmaven.wagon.http.connectionTimeout=20000", "-Dmaven.wagon.http.readTimeout=60000",
		"-Daether.connector.connectTimeout=20000", "-Daether.connector.requestTimeout=60000"}
	for attempt := 1; ; attempt++ {
		out, err := runLimited(ctx, mavenLimit, mvn, args...)
		if err == nil {
			return nil
		}
		err = fmt.Errorf("mvn: %w\n%s", err, out)
		if ctx.Err() != nil || attempt == mavenAttempts || !worthRepeating(err, out) {
			return err
		}
		log.printf("the download broke off; attempt %d of %d follows", attempt+1, mavenAttempts)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(attempt) * 2 * time.Second):
		}
		if attempt == 1 {
			args = append(args, "-U") // Maven remembers failed downloads
		}
	}
}

// brokenDownload tells a line that broke from a repository that said no ("Could
// not find artifact", "403 Forbidden").
var brokenDownload = regexp.MustCompile(`(?i)connection (reset|timed out|refused)|(read|connect) timed out|time-?out|premature end|unknown host|temporary failure in name resolution|remote host terminated|status(?: code)?:? (429|5\d\d)|checksum validation failed`)

func worthRepeating(err error, out string) bool {
	return errors.Is(err, errHung) || brokenDownload.MatchString(out)
}
