package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sdk/scaffold"
)

func (a *app) newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new LANGUAGE DIR",
		Short: "Write a plugin to start from, with a test",
		Long: `Writes a transformation that works, with a test, sample messages and a Makefile
that tests it and compiles it to WebAssembly. The plugin is named after DIR, which
must be absent or empty. LANGUAGE is ` + strings.Join(scaffold.Languages(), ", ") + `.

The SDK is used from a clone of Graphmill: the one that holds the working directory
or this program, or that of --sdk.`,
		Example: `  graphmill new go people-plugin
  cd people-plugin
  make
  graphmill run people-plugin.wasm --messages messages.jsonl`,
		Args: takes("LANGUAGE", "DIR"),
	}
	sdk := cmd.Flags().String("sdk", "", "the directory sdk/go of a clone of Graphmill")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		cfg := scaffold.Config{Language: args[0], Dir: args[1], SDKDir: *sdk}
		plugin, err := newPlugin(cfg)
		var refused *graphmill.Error
		if errors.As(err, &refused) && refused.Field == "language" {
			return wrongUsage("%s", refused.Text)
		}
		if err != nil {
			return err
		}
		printPlugin(a.out, calledFrom(os.Args[0], cfg.Dir), cfg.Dir, plugin)
		return nil
	}
	return cmd
}

func newPlugin(cfg scaffold.Config) (scaffold.Plugin, error) {
	if cfg.SDKDir == "" {
		var err error
		if cfg.SDKDir, err = scaffold.FindSDK(cfg.Language, searchPlaces()...); err != nil {
			return scaffold.Plugin{}, err
		}
	}
	return scaffold.New(cfg)
}

// searchPlaces returns where a clone of Graphmill may be around.
func searchPlaces() []string {
	var places []string
	if wd, err := os.Getwd(); err == nil {
		places = append(places, wd)
	}
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		places = append(places, filepath.Dir(exe))
	}
	return places
}

// calledFrom returns what calls this program from dir: the name by which it was called
// if that is looked for in the PATH, else a path, relative where the given one is.
func calledFrom(program, dir string) string {
	if !strings.ContainsRune(program, filepath.Separator) || filepath.IsAbs(program) {
		return program
	}
	if absolute, err := filepath.Abs(dir); err == nil {
		if wd, err := os.Getwd(); err == nil {
			if relative, err := filepath.Rel(absolute, filepath.Join(wd, program)); err == nil {
				return relative
			}
		}
	}
	return program
}

func printPlugin(w io.Writer, program, dir string, p scaffold.Plugin) {
	fmt.Fprintf(w, "wrote the plugin %s:\n", p.Name)
	for _, name := range p.Files {
		fmt.Fprintf(w, "  %s\n", filepath.Join(dir, name))
	}
	fmt.Fprintf(w, `
next:
  cd %[1]s
  make
  %[2]s run %[3]s.wasm --messages messages.jsonl
  %[2]s module push %[3]s %[3]s.wasm
README.md there goes on to a stream.
`, shellWord(dir), shellWord(program), p.Name)
}

// shellWord quotes what a shell would not take as one word.
func shellWord(s string) string {
	plain := func(c rune) bool {
		return c >= 0x80 || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.ContainsRune("/._-+,:@%", c)
	}
	if s != "" && strings.IndexFunc(s, func(c rune) bool { return !plain(c) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
