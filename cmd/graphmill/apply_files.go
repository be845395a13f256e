package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/graphmill/graphmill"
)

// maxDefinitionBytes bounds a file of definitions. Reading YAML takes some hundred
// times its size.
const maxDefinitionBytes = 4 << 20

const (
	cypherSuffix = ".cypher"
	wasmSuffix   = ".wasm"
)

// readDefinitions reads what the -f flags name. An error is of a flag; what is
// wrong in a file is in the definitions.
func (a *app) readDefinitions(ctx context.Context, names []string) (*definitions, error) {
	d := newDefinitions()
	for _, name := range names {
		var err error
		if name == "-" {
			err = a.readStandardInput(ctx, d)
		} else if info, statErr := os.Stat(name); statErr != nil {
			err = cannotRead(name, statErr)
		} else if info.IsDir() {
			err = a.readFolder(ctx, d, name)
		} else {
			err = readNamedFile(ctx, d, name, info)
		}
		if ctx.Err() != nil { // then not all is read, and what is wrong may be told wrongly
			err = ctx.Err()
		}
		if err != nil {
			d.close()
			return nil, err
		}
	}
	d.leaveTwice()
	return d, nil
}

func (a *app) readStandardInput(ctx context.Context, d *definitions) error {
	root, err := d.open(".")
	if err != nil {
		return err
	}
	f := &definitionFile{d: d, root: root, shown: "standard input"}
	f.read(ctx, a.input(ctx), readEither)
	return nil
}

// readEither reads YAML, or statements: these begin with CREATE or a comment, which no
// YAML of definitions does.
func readEither(ctx context.Context, f *definitionFile, text string) {
	begin := strings.ToUpper(strings.TrimLeftFunc(text, unicode.IsSpace))
	for _, of := range []string{"CREATE ", "CREATE\n", "//", "/*"} {
		if strings.HasPrefix(begin, of) {
			f.readCypher(ctx, text)
			return
		}
	}
	f.readYAML(ctx, text)
}

// readNamedFile reads a file that the command line names itself: a link is
// followed wherever it leads, and a pipe is read.
func readNamedFile(ctx context.Context, d *definitions, name string, info fs.FileInfo) error {
	kind := kindOf(name)
	if kind == nil && !isModule(name) {
		return &usageError{text: fmt.Sprintf("-f %s: apply takes files of the names *.yaml, *.yml, *.cypher and *.wasm, and folders", name)}
	}
	root, err := d.open(filepath.Dir(name))
	if err != nil {
		return err
	}
	f := &definitionFile{d: d, root: root, name: filepath.Base(name), shown: name}
	if kind == nil {
		f.addModule()
		return nil
	}
	if !info.Mode().IsRegular() {
		f.read(ctx, pipe(ctx, name), kind)
		return nil
	}
	file, err := os.Open(name)
	if err != nil {
		return cannotRead(name, err)
	}
	defer func() { _ = file.Close() }()
	f.read(ctx, file, kind)
	return nil
}

// readFolder reads the files of a folder by their names. Nothing outside of the
// folder is read, through links neither, and no folder in it.
func (a *app) readFolder(ctx context.Context, d *definitions, name string) error {
	root, err := d.open(name)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return cannotRead(name, err)
	}
	found := false
	var modules []*definitionFile
	for _, e := range entries { // sorted by name
		f := &definitionFile{d: d, root: root, name: e.Name(), shown: filepath.Join(name, e.Name())}
		kind := kindOf(f.name)
		switch {
		case strings.HasPrefix(f.name, "."), kind == nil && !isModule(f.name): // of editors, and what is none of ours
			continue
		case f.name == settingsFile:
			fmt.Fprintf(plainText{a.err}, "%s is a file of settings, and holds no definitions: it is left out\n", f.shown)
			continue
		}
		info, err := root.Stat(f.name)
		switch {
		case err != nil:
			d.breaks(place{file: f.shown}, "", outside(err))
		case info.IsDir():
			continue
		case !info.Mode().IsRegular():
			d.breaks(place{file: f.shown}, "", errors.New("it is no regular file"))
		case kind == nil:
			modules = append(modules, f)
		default:
			f.readRegular(ctx, kind)
		}
		found = true
	}
	for _, m := range modules {
		switch {
		case d.moduleFiles[moduleFile{root, m.name}]: // it is no module of its own name
		case d.unread[root]:
			d.breaks(place{file: m.shown}, "", errors.New("it is left: what is broken beside it may say which module it is"))
		default:
			m.addModule()
		}
	}
	if !found {
		return graphmill.Invalid("", "there is no file in %s that apply takes: *.yaml, *.yml, *.cypher, *.wasm", name)
	}
	return nil
}

// open opens a folder. Paths below it cannot lead out of it.
func (d *definitions) open(folder string) (*os.Root, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, cannotRead(folder, err)
	}
	d.roots = append(d.roots, root)
	return root, nil
}

// definitionFile is a file that is being read.
type definitionFile struct {
	d     *definitions
	root  *os.Root // what the file names lies below it
	name  string   // in root
	shown string   // for people
}

// fileKind reads the definitions of one kind of file. It ends early with ctx.
type fileKind func(ctx context.Context, f *definitionFile, text string)

// kindOf returns how a file of definitions is read, nil where it is none.
func kindOf(name string) fileKind {
	switch filepath.Ext(name) {
	case ".yaml", ".yml":
		return func(ctx context.Context, f *definitionFile, text string) { f.readYAML(ctx, text) }
	case cypherSuffix:
		return func(ctx context.Context, f *definitionFile, text string) { f.readCypher(ctx, text) }
	}
	return nil
}

func isModule(name string) bool { return filepath.Ext(name) == wasmSuffix }

// addModule takes the file as a module of its name.
func (f *definitionFile) addModule() {
	f.d.addModule(&wantedModule{place: place{file: f.shown}, name: strings.TrimSuffix(f.name, wasmSuffix), root: f.root, file: f.name})
}

func (f *definitionFile) readRegular(ctx context.Context, kind fileKind) {
	file, err := f.root.Open(f.name)
	if err != nil {
		f.notRead(0, "", outside(err))
		return
	}
	defer func() { _ = file.Close() }()
	f.read(ctx, file, kind)
}

func (f *definitionFile) read(ctx context.Context, r io.Reader, kind fileKind) {
	text, err := io.ReadAll(io.LimitReader(r, maxDefinitionBytes+1))
	switch {
	case err != nil:
		err = outside(err)
	case len(text) > maxDefinitionBytes:
		err = fmt.Errorf("it has more than %s; spread the definitions over several files", sizeText(maxDefinitionBytes))
	case !utf8.Valid(text):
		err = errors.New("it is no text in UTF-8")
	case strings.TrimSpace(string(text)) == "":
		f.d.breaks(place{file: f.shown}, "", errors.New("it is empty: no definition is in it"))
		return
	default:
		kind(ctx, f, string(text))
		return
	}
	f.notRead(0, "", err)
}

// notRead notes what is wrong with a file, or a part of it, so that what it
// defines there is not known: it may be the modules of the files beside it.
func (f *definitionFile) notRead(line int, about string, err error) {
	f.d.breaks(place{f.shown, line}, about, err)
	if filepath.Ext(f.name) != cypherSuffix { // statements name no files
		f.d.unread[f.root] = true
	}
}

// outside is an error of reading a file below a root, without the path, which is
// told beside it.
func outside(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	if err.Error() == "path escapes from parent" { // os has no value for it
		return errors.New("it lies, or its link leads, outside of the folder that -f names; nothing there is read")
	}
	return err
}
