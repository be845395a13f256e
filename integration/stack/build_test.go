package stack

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJavaVersion(t *testing.T) {
	for printed, want := range map[string]int{
		`openjdk version "17.0.15" 2025-04-15` + "\nOpenJDK Runtime Environment": 17,
		`java version "1.8.0_392"`:     8,
		`openjdk version "25"`:         25,
		`openjdk version "26-ea" 2026`: 26,
		"Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version \"21.0.1\"": 21,
		"javac 17.0.15":      17,
		"javac 1.8.0_392":    8,
		"command not found":  0,
		"":                   0,
		`version "unknown"`:  0,
		`javac-like 17 tool`: 0,
	} {
		require.Equal(t, want, javaVersion(printed), "printed: %s", printed)
	}
}

func TestStartNamesTheProgramThatIsMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		install func(m *machine)
		program string
		text    string
	}{
		"no Java": {
			install: func(*machine) {},
			program: "java", text: "java is not installed: install a JDK (17 or newer)",
		},
		"a Java that is too old": {
			install: func(m *machine) { m.installAll(""); m.installJava("11.0.2", "") },
			program: "java", text: "is of version 11, 17 is the oldest that will do",
		},
		"a Java that only says that there is none, as on macOS": {
			install: func(m *machine) { m.install("java", "echo 'Unable to locate a Java Runtime.'; exit 1") },
			program: "java", text: "cannot be used",
		},
		"a Java without a compiler": {
			install: func(m *machine) { m.installJava("17.0.15", ""); m.installMaven("") },
			program: "javac", text: "javac is not installed: install a JDK (17 or newer)",
		},
		"a compiler that is too old": {
			install: func(m *machine) { m.installAll(""); m.installCompiler("11.0.2") },
			program: "javac", text: "is of version 11",
		},
		"no Maven": {
			install: func(m *machine) { m.installJava("17.0.15", ""); m.installCompiler("17.0.15") },
			program: "mvn", text: "mvn is not installed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			tc.install(m)
			_, startErr := StartKafka(t.Context(), KafkaConfig{})
			for what, err := range map[string]error{"start": startErr, "check": Check(t.Context())} {
				var missing *MissingError
				require.ErrorAs(t, err, &missing, what)
				require.Equal(t, tc.program, missing.Program, what)
				require.ErrorContains(t, err, tc.text, what)
			}
			m.requireNothingLeft()
		})
	}
}

func TestCheckPassesWhereAllToolsAre(t *testing.T) {
	newMachine(t).installAll("")
	require.NoError(t, Check(t.Context()))
}

func TestJavaHomeGoesBeforeThePath(t *testing.T) {
	m := newMachine(t)
	m.installAll("")
	m.installJava("11.0.2", "")
	home := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(home, "bin"), 0o755))
	for _, program := range []string{"java", "javac"} {
		require.NoError(t, os.WriteFile(filepath.Join(home, "bin", program), []byte("#!/bin/sh\necho 'javac 21.0.1'\n"), 0o755))
	}
	t.Setenv("JAVA_HOME", home)
	require.NoError(t, Check(t.Context()))
}

func TestResolveAsksMavenOnceAndAgainWhereAJarIsGone(t *testing.T) {
	m := newMachine(t)
	m.installAll("")
	require.NoError(t, Resolve(t.Context(), nil, "kafka"))
	require.NoError(t, Resolve(t.Context(), nil, "kafka"))
	require.Equal(t, 1, m.mavenRuns(), "the second time the answer is in the cache")

	require.NoError(t, os.Truncate(m.jar, 0)) // as a full disk leaves it
	require.ErrorContains(t, Resolve(t.Context(), nil, "kafka"), "names no jars, or some that are not there")
	require.Equal(t, 2, m.mavenRuns())

	require.NoError(t, os.WriteFile(m.jar, []byte("jar"), 0o644))
	require.NoError(t, Resolve(t.Context(), nil, "kafka"))
	require.Equal(t, 2, m.mavenRuns(), "what is in the cache is good again")
}

func TestResolveNeedsNeitherMavenNorCompilerOnceAllIsThere(t *testing.T) {
	m := newMachine(t)
	m.installAll("")
	require.NoError(t, Resolve(t.Context(), nil, Names()...))
	require.NoError(t, os.Remove(filepath.Join(m.bin, "mvn")))
	require.NoError(t, os.Remove(filepath.Join(m.bin, "javac")))
	require.NoError(t, Resolve(t.Context(), nil, Names()...))
}

func TestResolveRefusesAnUnknownServer(t *testing.T) {
	require.ErrorContains(t, Resolve(t.Context(), nil, "postgres"), `there is no server "postgres"`)
}

func TestMavenRefusalIsFinal(t *testing.T) {
	m := newMachine(t)
	m.installAll("")
	m.installMaven("echo 'Could not find artifact org.apache.kafka:kafka_2.13:jar:4.4.0 in central'; exit 1")
	require.ErrorContains(t, Resolve(t.Context(), nil, "kafka"), "Could not find artifact org.apache.kafka:kafka_2.13")
	require.Equal(t, 1, m.mavenRuns())
}

func TestMavenDownloadThatBreaksIsRepeated(t *testing.T) {
	m := newMachine(t)
	m.installAll("")
	m.installMaven(`if [ ! -e ` + m.runs + `.once ]; then : >` + m.runs + `.once; echo 'Could not transfer artifact: Connection reset'; exit 1; fi`)
	log := &buffer{}
	require.NoError(t, Resolve(t.Context(), log, "kafka"))
	require.Equal(t, 2, m.mavenRuns())
	require.Contains(t, log.lines(), "kafka: the download broke off; attempt 2 of 3 follows")
}

func TestMavenIsEndedWithTheContext(t *testing.T) {
	m := newMachine(t)
	m.installAll("")
	m.installMaven("/bin/sleep 600")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	require.ErrorIs(t, Resolve(ctx, nil, "kafka"), context.DeadlineExceeded)
	require.Less(t, time.Since(begin), time.Minute)
}

func TestCompilerErrorIsShown(t *testing.T) {
	m := newMachine(t)
	m.installAll("")
	m.install("javac", `case $1 in -version) echo 'javac 17.0.15'; exit 0 ;; esac; echo 'KafkaMain.java:15: error: package kafka does not exist'; exit 1`)
	require.ErrorContains(t, Resolve(t.Context(), nil, "kafka"), "package kafka does not exist")
}

func TestLockOfTheCacheIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockCache(t.Context(), dir)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	_, err = lockCache(ctx, dir)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	unlock()
	unlock, err = lockCache(t.Context(), dir)
	require.NoError(t, err)
	unlock()
}

func TestWhoHoldsTheLockRemovesWhatAKilledProcessLeft(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, workPrefix+"123")
	require.NoError(t, os.Mkdir(left, 0o755))
	unlock, err := lockCache(t.Context(), dir)
	require.NoError(t, err)
	defer unlock()
	require.NoDirExists(t, left)
}
