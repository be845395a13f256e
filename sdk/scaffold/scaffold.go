// Package scaffold writes plugins to start from: a transformation that works, with a
// test, sample messages and what builds it.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/graphmill/graphmill"
)

// Config says what to write.
type Config struct {
	Language string // one of Languages
	Dir      string // where to; absent or empty, and made with the directories above it
	SDKDir   string // the language's SDK on this machine, such as FindSDK returns it
	Name     string // of the plugin, valid as that of a module; empty: made of Dir's last element
}

// Plugin is what has been written.
type Plugin struct {
	Name  string   // that of the WebAssembly file without ".wasm", good as name of the module
	Files []string // within Config.Dir, in the order in which to read them
}

// Languages returns the languages in which a plugin can be started.
func Languages() []string { return []string{goLanguage} }

// New writes a plugin into cfg.Dir. It never overwrites: a directory that holds
// anything is refused. After an error nothing of it is left.
//
// Errors of use are a *graphmill.Error: of KindInvalid for the fields language, dir,
// name and sdk, of KindConflict where the directory is not empty. Others are the file
// system's, wrapped.
func New(cfg Config) (Plugin, error) {
	if err := checkLanguage(cfg.Language); err != nil {
		return Plugin{}, err
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return Plugin{}, fmt.Errorf("find the working directory: %w", err)
	}
	if err := checkEmpty(dir, cfg.Dir); err != nil {
		return Plugin{}, err
	}
	if cfg.Name == "" {
		cfg.Name = nameOf(filepath.Base(dir))
	}
	if err := graphmill.ValidateName("name", cfg.Name); err != nil {
		return Plugin{}, err
	}
	values, err := goValues(cfg, dir)
	if err != nil {
		return Plugin{}, err
	}
	files, err := render(values)
	if err != nil {
		return Plugin{}, err
	}
	if err := write(dir, files); err != nil {
		return Plugin{}, err
	}
	plugin := Plugin{Name: cfg.Name}
	for _, f := range files {
		plugin.Files = append(plugin.Files, f.name)
	}
	return plugin, nil
}

func checkLanguage(language string) error {
	known := Languages()
	if slices.Contains(known, language) {
		return nil
	}
	text := fmt.Sprintf("a plugin cannot be started in %q, only in: %s", language, strings.Join(known, ", "))
	if near := graphmill.Nearest(language, known); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return graphmill.Invalid("language", "%s", text)
}

// checkEmpty refuses a directory that holds anything; given is how the user calls it.
func checkEmpty(dir, given string) error {
	if given == "" {
		return graphmill.Invalid("dir", "a directory is needed")
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		if info, statErr := os.Stat(dir); statErr == nil && !info.IsDir() {
			return graphmill.Invalid("dir", "%s is not a directory", given)
		}
		return fmt.Errorf("read the directory %s: %w", given, errors.Unwrap(err))
	case len(entries) > 0:
		refusal := graphmill.Conflict("dir_not_empty", "the directory %s is not empty: it holds %s", given, entries[0].Name())
		refusal.Next = "name a directory that is absent or empty"
		return refusal
	}
	return nil
}

// nameOf makes a valid name of a module from that of a directory.
func nameOf(base string) string {
	name := strings.Map(func(c rune) rune {
		if graphmill.ValidateName("", "x"+string(c)) != nil {
			return '-'
		}
		return c
	}, base)
	name = strings.TrimLeft(name, ".-")
	name = strings.TrimRight(name[:min(len(name), graphmill.MaxNameLength)], ".-")
	if name == "" {
		return "plugin"
	}
	return name
}

// file is a file to write.
type file struct {
	name    string
	content []byte
}

//go:embed templates
var templates embed.FS

// render makes the files of a plugin in Go. Their templates have names that no tool
// takes for what they become: a directory with a go.mod could not be embedded.
func render(values goTemplate) ([]file, error) {
	var files []file
	for _, name := range []string{"main.go", "main_test.go", "messages.jsonl", "Makefile", "README.md", "go.mod", ".gitignore"} {
		path := "templates/go/" + strings.TrimPrefix(name, ".") + ".tmpl"
		t, err := template.ParseFS(templates, path)
		if err != nil {
			return nil, fmt.Errorf("read the template of %s: %w", name, err)
		}
		var content bytes.Buffer
		if err := t.Execute(&content, values); err != nil {
			return nil, fmt.Errorf("make %s: %w", name, err)
		}
		files = append(files, file{name, content.Bytes()})
	}
	return files, nil
}

// write writes all files or none. It removes only what it has made itself.
func write(dir string, files []file) (err error) {
	var made []string // in the order in which they were made
	defer func() {
		if err == nil {
			return
		}
		for i := len(made) - 1; i >= 0; i-- {
			if removeErr := os.Remove(made[i]); removeErr != nil {
				err = errors.Join(err, fmt.Errorf("remove what was written: %w", removeErr))
			}
		}
	}()
	for _, d := range absentDirs(dir) {
		if err := os.Mkdir(d, 0o755); err != nil {
			return fmt.Errorf("make the directory: %w", err)
		}
		made = append(made, d)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return fmt.Errorf("write the plugin: %w", err)
		}
		made = append(made, path)
		_, err = out.Write(f.content)
		if err = errors.Join(err, out.Close()); err != nil {
			return fmt.Errorf("write the plugin: %w", err)
		}
	}
	return nil
}

// absentDirs returns dir and those above it that are not there, topmost first.
func absentDirs(dir string) []string {
	var absent []string
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return absent
		}
		absent = append([]string{dir}, absent...)
		dir = filepath.Dir(dir)
	}
}
