package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/graphmill/graphmill"
)

// definitions are what the files of an apply say that is to be, in the order of
// the files.
type definitions struct {
	streams []*wantedStream
	modules []*wantedModule
	broken  []*brokenDefinition
	roots   []*os.Root // the folders that module files are read from; closed by close

	told map[string]int               // errors that are told of each file
	more map[string]*brokenDefinition // what stands for those that are not

	listed bool // there is a list of streams, even an empty one, or a statement

	streamsNamed map[string]*wantedStream // those that are broken too
	modulesNamed map[string]*wantedModule
	moduleFiles  map[moduleFile]bool // those that definitions name, broken ones too
	unread       map[*os.Root]bool   // folders with a file that may name others
}

// moduleFile is a file below a root.
type moduleFile struct {
	root *os.Root
	path string // clean
}

// place is where in the files something is written.
type place struct {
	file string
	line int // from 1; 0: the file as a whole
}

// String returns file:line.
func (p place) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d", p.file, p.line)
}

// wantedStream is a stream as a file defines it.
type wantedStream struct {
	place
	spec  graphmill.StreamSpec // without the defaults
	state graphmill.State      // running, stopped; empty: as it is
	lines map[string]int       // where options stand, entries of maps as settings.NAME
	twice bool                 // defined elsewhere, too
}

// at is where a field that an error names is written.
func (w *wantedStream) at(field string) place {
	p := w.place
	if line := w.lines[field]; line > 0 {
		p.line = line
	}
	return p
}

// wantedModule is a module as a file defines it, or as a file of WebAssembly is one.
type wantedModule struct {
	place
	name   string
	sha256 string // that the file has to have, or the server; empty: any

	root *os.Root // that file lies below
	file string   // in root; empty: only the SHA-256 is known

	twice bool // defined elsewhere, too
}

// brokenDefinition is a file, or a definition in one, that cannot be applied. The
// others are.
type brokenDefinition struct {
	about string // "stream ratings"; empty: a file as a whole
	errs  []error
	count int // of definitions that it stands for; 0: one
}

// definitionError says what is wrong at a place of the files.
type definitionError struct {
	at    place
	about string
	err   error
}

// Error returns place, thing and what is wrong.
func (e *definitionError) Error() string {
	if e.about == "" {
		return fmt.Sprintf("%s: %v", e.at, e.err)
	}
	return fmt.Sprintf("%s: %s: %v", e.at, e.about, e.err)
}

// Unwrap returns what is wrong.
func (e *definitionError) Unwrap() error { return e.err }

func newDefinitions() *definitions {
	return &definitions{told: map[string]int{}, more: map[string]*brokenDefinition{}, streamsNamed: map[string]*wantedStream{}, modulesNamed: map[string]*wantedModule{},
		moduleFiles: map[moduleFile]bool{}, unread: map[*os.Root]bool{}}
}

func (d *definitions) close() {
	for _, r := range d.roots {
		_ = r.Close() // nothing is written below it
	}
}

// maxTold bounds what is told of one definition, and of one file: behind so many
// errors, definitions are counted.
const maxTold = 20

// breaks notes what cannot be applied.
func (d *definitions) breaks(at place, about string, errs ...error) {
	if d.toldEnough(at.file) {
		d.breaksUntold(at.file)
		return
	}
	if more := len(errs) - maxTold; more > 0 {
		errs = append(errs[:maxTold:maxTold], fmt.Errorf("and %s", count(more, "thing more is wrong", "things more are wrong")))
	}
	b := &brokenDefinition{about: about}
	for _, err := range errs {
		if placed, ok := errors.AsType[*definitionError](err); ok {
			placed.about = about
		} else {
			err = &definitionError{at: at, about: about, err: err}
		}
		b.errs = append(b.errs, err)
	}
	d.broken = append(d.broken, b)
	d.told[at.file] += len(b.errs)
}

// toldEnough says whether what else is wrong in a file is not told any more.
func (d *definitions) toldEnough(file string) bool { return d.told[file] >= maxTold }

// breaksUntold counts what cannot be applied.
func (d *definitions) breaksUntold(file string) {
	b := d.more[file]
	if b == nil {
		b = &brokenDefinition{}
		d.more[file] = b
		d.broken = append(d.broken, b)
	}
	b.count++
	err := fmt.Errorf("and %s", count(b.count, "definition more is wrong", "definitions more are wrong"))
	b.errs = []error{&definitionError{at: place{file: file}, err: err}}
}

// addStream takes a stream that has been read without an error. One that is
// defined twice is not applied at all: which of the two is meant is not known.
func (d *definitions) addStream(w *wantedStream) {
	d.listed = true
	about := "stream " + w.spec.Name
	if first := d.streamsNamed[w.spec.Name]; first != nil {
		d.breaks(w.place, about, definedTwice(first.place))
		first.twice = true
		return
	}
	d.streamsNamed[w.spec.Name] = w
	spec := w.spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		d.breaks(w.at(wrongEntry(spec, err)), about, err)
		return
	}
	d.streams = append(d.streams, w)
}

func (d *definitions) addModule(w *wantedModule) {
	about := "module " + w.name
	if first := d.modulesNamed[w.name]; first != nil {
		d.breaks(w.place, about, definedTwice(first.place))
		first.twice = true
		return
	}
	d.modulesNamed[w.name] = w
	if err := graphmill.ValidateName("name", w.name); err != nil {
		d.breaks(w.place, "module", err)
		return
	}
	d.modules = append(d.modules, w)
}

func definedTwice(first place) error {
	e := graphmill.Invalid("", "it is defined twice, at %s too", first)
	e.Next = "leave one of the two; neither is applied"
	return e
}

// leaveTwice leaves out what is defined twice. It is called when all is read.
func (d *definitions) leaveTwice() {
	d.streams = slices.DeleteFunc(d.streams, func(w *wantedStream) bool { return w.twice })
	d.modules = slices.DeleteFunc(d.modules, func(w *wantedModule) bool { return w.twice })
}

// wrongEntry returns the field that an error of Validate names; of a map, the
// entry that is the placeholder of an export.
func wrongEntry(spec graphmill.StreamSpec, err error) string {
	var e *graphmill.Error
	if !errors.As(err, &e) {
		return ""
	}
	entries := map[string]map[string]string{"configs": spec.Configs, "credentials": spec.Credentials}[e.Field]
	for name, value := range entries {
		if value == graphmill.RedactedValue {
			return e.Field + "." + name
		}
	}
	return e.Field
}
