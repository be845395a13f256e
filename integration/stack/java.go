package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"time"
)

// minJava is the oldest Java that all servers run on.
const minJava = 17

// MissingError says that a program which the servers need is absent from this
// machine, or too old.
type MissingError struct {
	Program string // "java", "javac" or "mvn"
	Found   string // what is there instead; empty: nothing
}

// Error names the program and what to install.
func (e *MissingError) Error() string {
	found := "is not installed"
	if e.Found != "" {
		found = "cannot be used (" + e.Found + ")"
	}
	install := "install a JDK (17 or newer) and Maven with the system's package manager"
	switch runtime.GOOS {
	case "linux":
		install = "install a JDK (17 or newer) and Maven: apt-get install openjdk-17-jdk-headless maven, or dnf install java-17-openjdk-devel maven"
	case "darwin":
		install = "install a JDK (17 or newer) and Maven: brew install openjdk maven, and put the JDK on the PATH or in JAVA_HOME"
	}
	return fmt.Sprintf("%s %s: %s", e.Program, found, install)
}

// Check says whether servers can be started on this machine: nil, or an error
// that names what is missing. It looks at programs only and downloads nothing.
func Check(ctx context.Context) error {
	if _, err := findJava(ctx); err != nil {
		return err
	}
	if _, err := findCompiler(ctx); err != nil {
		return err
	}
	_, err := findMaven()
	return err
}

// findJava returns the path of a Java that is new enough: the one of JAVA_HOME,
// else the one on the PATH.
func findJava(ctx context.Context) (string, error) {
	return findVersioned(ctx, "java")
}

// findCompiler returns the path of a javac that is new enough.
func findCompiler(ctx context.Context) (string, error) {
	return findVersioned(ctx, "javac")
}

func findMaven() (string, error) {
	path, err := exec.LookPath("mvn")
	if err != nil {
		return "", &MissingError{Program: "mvn"}
	}
	return path, nil
}

func findVersioned(ctx context.Context, program string) (string, error) {
	path, err := lookJDK(program)
	if err != nil {
		return "", &MissingError{Program: program}
	}
	// A macOS without Java has a java that only says so and fails.
	out, err := runLimited(ctx, time.Minute, path, "-version")
	if ctx.Err() != nil {
		return "", fmt.Errorf("ask %s for its version: %w", path, ctx.Err())
	}
	if err != nil {
		return "", &MissingError{Program: program, Found: fmt.Sprintf("%s -version: %v", path, err)}
	}
	version := javaVersion(out)
	if version < minJava {
		return "", &MissingError{Program: program, Found: fmt.Sprintf("%s is of version %d, %d is the oldest that will do", path, version, minJava)}
	}
	return path, nil
}

func lookJDK(program string) (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return exec.LookPath(filepath.Join(home, "bin", program))
	}
	return exec.LookPath(program)
}

// What java and javac print: `openjdk version "17.0.15" 2025-04-15`,
// `java version "1.8.0_392"`, `openjdk version "26-ea"`, `javac 17.0.15`.
var javaVersionText = regexp.MustCompile(`(?m)(?:version "|^javac )(?:1\.)?(\d+)`)

// javaVersion reads the feature release (8, 17, 25) from the output of
// -version; 0 where there is none.
func javaVersion(out string) int {
	m := javaVersionText.FindStringSubmatch(out)
	if m == nil {
		return 0
	}
	version, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return version
}
