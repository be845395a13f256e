package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// compileLimit is the time for one run of javac: 2 s on an idle machine.
const compileLimit = 3 * time.Minute

// compile returns the directory with the compiled sources of an artifact. The
// compiler runs only where sources or jars are not those of the last time.
func compile(ctx context.Context, a artifact, jars []string, log *progress) (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	parts := [][]byte{[]byte(classpath(jars))}
	for _, s := range a.sources {
		parts = append(parts, []byte(s.name), s.content)
	}
	classes := filepath.Join(dir, a.name+"-"+cacheKey(parts...)+".classes")
	if isDir(classes) {
		return classes, nil
	}
	unlock, err := lockCache(ctx, dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	if isDir(classes) { // another process was quicker
		return classes, nil
	}

	javac, err := findCompiler(ctx)
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(dir, workPrefix)
	if err != nil {
		return "", fmt.Errorf("make a directory for javac: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	out := filepath.Join(work, "classes")
	args := []string{"-proc:none", "-nowarn", "--release", "17", "-cp", classpath(jars), "-d", out}
	for _, s := range a.sources {
		path := filepath.Join(work, s.name)
		if err := os.WriteFile(path, s.content, 0o644); err != nil {
			return "", fmt.Errorf("write %s: %w", s.name, err)
		}
		args = append(args, path)
	}
	err = log.during("compiling the program that starts it, once", func() error {
		if out, err := runLimited(ctx, compileLimit, javac, args...); err != nil {
			return fmt.Errorf("javac: %w\n%s", err, out)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("compile the program that starts %s: %w", a.name, err)
	}
	if err := os.Rename(out, classes); err != nil {
		return "", fmt.Errorf("keep the compiled program: %w", err)
	}
	return classes, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
