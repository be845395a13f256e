package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
)

// modulePlan is how a module becomes what is wanted.
type modulePlan struct {
	wanted *wantedModule
	sum    string // SHA-256 of the bytes that were compared
	again  int    // a version that the server has and that is not active; 0: the file is pushed
}

// planModule compares a module with the server's.
func (p *applying) planModule(ctx context.Context, w *wantedModule) (*appliedItem, error) {
	item := &appliedItem{Kind: "module", Name: w.name, Place: w.place.String(), module: &modulePlan{wanted: w}}
	sum, size, err := w.sum()
	if err != nil {
		return item, w.wrong(err)
	}
	item.module.sum = sum
	var there api.ModuleVersions
	err = p.client.call(ctx, http.MethodGet, apiPath("modules", w.name), nil, &there)
	if err != nil && !isCode(err, "module_not_found") {
		return item, err
	}
	i := slices.IndexFunc(there.Versions, func(m graphmill.Module) bool { return m.SHA256 == sum })
	active := slices.IndexFunc(there.Versions, func(m graphmill.Module) bool { return m.Active })
	switch {
	case i >= 0 && i == active:
		item.Action = actionUnchanged
		return item, nil
	case i >= 0:
		item.module.again = there.Versions[i].Version
	case w.file == "":
		return item, w.wrong(&graphmill.Error{
			Kind: graphmill.KindNotFound, Code: "module_not_found",
			Text: fmt.Sprintf("the server has no version of it with the SHA-256 %.12s, and no file is named", sum),
			Next: "name the module's file: export writes it with --modules DIR",
		})
	}
	item.Action = actionCreate
	was := ""
	if active >= 0 && !there.ReadOnly { // a ready module is hidden by one that is pushed
		item.Action = actionChange
		was = fmt.Sprintf("%.12s", there.Versions[active].SHA256)
		if item.module.again > 0 {
			item.Changes = append(item.Changes, change{"version", strconv.Itoa(there.Active), strconv.Itoa(item.module.again)})
		}
	}
	item.Changes = append(item.Changes, change{"sha256", was, sum[:12]})
	if size > 0 && item.Action == actionCreate {
		item.Changes = append(item.Changes, change{"size", "", sizeText(size)})
	}
	return item, nil
}

// sum returns the SHA-256 of the module's file and its size, or the SHA-256 that
// is all there is.
func (w *wantedModule) sum() (string, int64, error) {
	if w.sha256 != "" {
		if b, err := hex.DecodeString(w.sha256); err != nil || len(b) != sha256.Size {
			return "", 0, errors.New("sha256 is no SHA-256: 64 hexadecimal digits")
		}
	}
	if w.file == "" {
		return w.sha256, 0, nil
	}
	file, err := w.open()
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = file.Close() }()
	sum, size, err := sumOf(file)
	switch {
	case err != nil:
		return "", 0, outside(err)
	case size == 0:
		return "", 0, fmt.Errorf("%s is empty", w.file)
	case w.sha256 != "" && sum != w.sha256:
		return "", 0, fmt.Errorf("%s has the SHA-256 %.12s, not the one that stands beside it", w.file, sum)
	}
	return sum, size, nil
}

// sumOf reads to the end, and returns the SHA-256 and the size of what it has read.
func sumOf(r io.Reader) (string, int64, error) {
	hash := sha256.New()
	size, err := io.Copy(hash, r)
	return hex.EncodeToString(hash.Sum(nil)), size, err
}

// open opens the module's file.
func (w *wantedModule) open() (*os.File, error) {
	info, err := w.root.Stat(w.file)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", w.file, outside(err))
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", w.file)
	case info.Size() > maxModuleBytes:
		return nil, fmt.Errorf("%s has more than %s, and is no module", w.file, sizeText(maxModuleBytes))
	}
	file, err := w.root.Open(w.file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.file, outside(err))
	}
	return file, nil
}

// doModule pushes a module's file, or makes the version active that has its bytes.
func (p *applying) doModule(ctx context.Context, item *appliedItem) error {
	w := item.module.wanted
	path := apiPath("modules", w.name)
	if v := item.module.again; v > 0 {
		return p.client.call(ctx, http.MethodPost, path+":rollback", api.Rollback{Version: v}, nil)
	}
	file, err := w.open()
	if err != nil {
		return w.wrong(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return w.wrong(outside(err))
	}
	if info.Size() == 0 { // it was not
		return w.wrong(errChangedSince(w.file))
	}
	body := &pinnedReader{r: io.LimitReader(file, info.Size()), left: info.Size(), hash: sha256.New(), sum: item.module.sum}
	err = p.client.stream(ctx, http.MethodPut, path, server.ContentTypeWasm, body, info.Size(), nil)
	if body.changed.Load() {
		return w.wrong(errChangedSince(w.file))
	}
	return err
}

func errChangedSince(file string) error {
	return &graphmill.Error{Kind: graphmill.KindConflict, Code: "file_changed",
		Text: file + " has changed since it was compared, and is not pushed", Next: "apply again"}
}

// pinnedReader reads so many bytes, and gives the last ones only if all of them have
// the SHA-256 that was compared: a file may be swapped, or written to, until then. A
// server keeps nothing of a body that is not whole.
type pinnedReader struct {
	r       io.Reader
	left    int64
	hash    hash.Hash
	sum     string
	changed atomic.Bool // read while the transport may still be reading
}

// Read is io.Reader.
func (p *pinnedReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	_, _ = p.hash.Write(b[:n]) // never fails
	p.left -= int64(n)
	if err == io.EOF && p.left > 0 || p.left == 0 && hex.EncodeToString(p.hash.Sum(nil)) != p.sum {
		p.changed.Store(true)
		return 0, errors.New("the file has changed")
	}
	return n, err
}

// located puts the place in the files before what the server refuses.
func (w *wantedModule) located(err error) error {
	if asProblem(err) == nil {
		return err
	}
	return w.wrong(err)
}

// wrong puts the place in the files before what is wrong about a module.
func (w *wantedModule) wrong(err error) error {
	return &definitionError{at: w.place, about: "module " + w.name, err: err}
}
