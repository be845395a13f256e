package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/graphmill/graphmill"
)

// Bounds of a YAML file. Aliases repeat what stands elsewhere in the file, so its
// size alone bounds nothing.
const (
	maxYAMLValues = 200_000
	maxYAMLMerges = 16 // of maps into maps that are merged themselves
)

// yamlFile is a YAML file that is being read. No value of it stands in an error:
// it may be secret.
type yamlFile struct {
	*definitionFile
	values int // that may still be looked at
}

// readYAML reads documents that are maps of the lists streams and modules. Of a
// file that is no YAML nothing is taken: who knows what belongs where.
func (f *definitionFile) readYAML(ctx context.Context, text string) {
	docs, read, err := yamlDocuments(ctx, text)
	switch {
	case err != nil:
		f.notRead(yamlErrorLine(ctx, text, read, err), "", yamlError(err))
	case len(docs) == 0:
		f.d.breaks(place{file: f.shown}, "", errors.New("no definition is in it"))
	}
	y := &yamlFile{definitionFile: f, values: maxYAMLValues}
	for _, doc := range docs {
		y.document(ctx, doc)
	}
}

// yamlField is one entry of a map.
type yamlField struct {
	name  string
	line  int
	value *yaml.Node
}

func (f *yamlFile) wrong(line int, format string, args ...any) error {
	return &definitionError{at: place{f.shown, line}, err: fmt.Errorf(format, args...)}
}

// document reads one document.
func (f *yamlFile) document(ctx context.Context, n *yaml.Node) {
	fields, err := f.fields(n, "a document is a map of streams and modules")
	if err != nil {
		f.notRead(n.Line, "", err)
		return
	}
	for _, field := range fields {
		var read func(*yaml.Node)
		switch field.name {
		case "streams":
			read = f.stream
			f.d.listed = f.d.listed || !isNull(field.value)
		case "modules":
			read = f.module
		default:
			f.notRead(field.line, "", unknownKey(field.name, []string{"streams", "modules"}))
			continue
		}
		items, err := f.list(field.value, field.name+" is a list")
		if err != nil {
			f.notRead(field.line, field.name, err)
		}
		for _, item := range items {
			if ctx.Err() != nil {
				return
			}
			read(item)
		}
	}
}

func unknownKey(name string, known []string) error {
	e := graphmill.Invalid("", "the key %q is not known there", clip(name, 60))
	if near := graphmill.Nearest(name, known); near != "" {
		e.Text += fmt.Sprintf("; did you mean %s?", near)
	} else {
		e.Next = "these are: " + strings.Join(known, ", ")
	}
	return e
}

// stream reads one of the list of streams.
func (f *yamlFile) stream(n *yaml.Node) {
	w := &wantedStream{place: place{f.shown, n.Line}, lines: map[string]int{}}
	options := optionFields(&w.spec)
	known := append(slices.Clone(optionNames), "state")
	about := "stream"
	fields, err := f.fields(n, "a stream is a map of its options")
	errs := []error{err}
	for _, field := range fields {
		w.lines[field.name] = field.line
		option, ok := options[field.name]
		switch {
		case field.name == "state":
			w.state, err = f.state(field)
		case !ok:
			err = f.wrong(field.line, "%w", unknownKey(field.name, known))
		default:
			err = f.option(w, field, option)
		}
		errs = append(errs, err)
	}
	if name := w.spec.Name; name != "" {
		about = "stream " + name
	}
	if errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(errs) == 0 {
		f.d.addStream(w)
		return
	}
	if f.d.streamsNamed[w.spec.Name] == nil {
		f.d.streamsNamed[w.spec.Name] = w
	}
	f.d.breaks(w.place, about, errs...)
}

func (f *yamlFile) state(field yamlField) (graphmill.State, error) {
	text, err := f.text(field.value, field.name)
	switch state := graphmill.State(text); {
	case err != nil:
		return "", err
	case state == "" || state == graphmill.StateRunning || state == graphmill.StateStopped:
		return state, nil
	}
	return "", f.wrong(field.line, "state is %s or %s; without it the stream stays as it is", graphmill.StateRunning, graphmill.StateStopped)
}

// option reads the value of an option into the definition. Null is the default.
func (f *yamlFile) option(w *wantedStream, field yamlField, into any) (err error) {
	switch into := into.(type) {
	case *string:
		*into, err = f.text(field.value, field.name)
	case *int:
		var n int64
		n, err = f.number(field.value, field.name)
		*into = int(n)
	case *int64:
		*into, err = f.number(field.value, field.name)
	case *[]string:
		*into, err = f.texts(field.value, field.name)
	case *map[string]string:
		*into, err = f.entries(w, field)
	default:
		err = fmt.Errorf("an option of the type %T cannot be read", into)
	}
	return err
}

func (f *yamlFile) entries(w *wantedStream, field yamlField) (map[string]string, error) {
	if isNull(field.value) {
		return nil, nil
	}
	fields, err := f.fields(field.value, field.name+" is a map of texts")
	if err != nil {
		return nil, err
	}
	entries := make(map[string]string, len(fields))
	for _, e := range fields {
		name := field.name + "." + e.name
		if isNull(e.value) {
			return nil, f.wrong(e.line, "%s has no value; write '' for an empty one, or leave it out", name)
		}
		if entries[e.name], err = f.text(e.value, name); err != nil {
			return nil, err
		}
		w.lines[name] = e.line
	}
	return entries, nil
}

// module reads one of the list of modules.
func (f *yamlFile) module(n *yaml.Node) {
	w := &wantedModule{place: place{f.shown, n.Line}, root: f.root}
	fields, err := f.fields(n, "a module is a map of name and file")
	errs := []error{err}
	for _, field := range fields {
		switch field.name {
		case "name":
			w.name, err = f.text(field.value, field.name)
		case "file":
			w.file, err = f.text(field.value, field.name)
		case "sha256":
			w.sha256, err = f.text(field.value, field.name)
			w.sha256 = strings.ToLower(w.sha256)
		case "version":
			_, err = f.number(field.value, field.name) // for people: each server counts its own
		default:
			err = f.wrong(field.line, "%w", unknownKey(field.name, []string{"name", "file", "sha256", "version"}))
		}
		errs = append(errs, err)
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 && w.file == "" && w.sha256 == "" {
		errs = append(errs, errors.New("it needs file, the path of the module from here; or sha256, where the server has it already"))
	}
	if w.file != "" {
		f.d.moduleFiles[moduleFile{f.root, filepath.Clean(w.file)}] = true
	} else if len(errs) > 0 {
		f.d.unread[f.root] = true
	}
	if len(errs) > 0 {
		f.d.breaks(w.place, strings.TrimSpace("module "+w.name), errs...)
		return
	}
	f.d.addModule(w)
}
