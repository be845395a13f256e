// Package secret keeps credentials unreadable where they are stored (Keys), and
// finds the values of references to secrets (References).
package secret

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/graphmill/graphmill"
)

const (
	keyBytes = 32 // AES-256

	maxKeyFile = 64 << 10 // bytes
)

// Prefix begins every sealed value: a word and the version of the form. Then
// follow the key's id, ":", and nonce and box in base64.
const Prefix = "sealed:1:"

// Keys seals and opens values with the keys of a file. It reads the file when it
// first needs it, when it is told to (Renew), and when a value was sealed with a key
// that it does not know, so that a key that is put back counts at once. It makes the
// file with the first value that is sealed, if it is to. Safe for concurrent use.
//
// The file holds one key a line, 32 bytes in base64, and comments behind "#". The
// first key seals; all of them open. So a new key is put in front of the old one,
// and the old one is taken out once nothing is sealed by it any more.
type Keys struct {
	path     string
	create   bool
	readFile func(path string, most int64) ([]byte, fs.FileInfo, error) // see ReadFile

	reading sync.Mutex // held by the one that reads the file: what was read last counts

	mu   sync.Mutex
	read []key // empty: the file has not been read
}

type key struct {
	id   string // 8 hexadecimal digits of the key's SHA-256
	aead cipher.AEAD
}

// NewKeys takes the keys from a file. With create, an absent file is made when
// the first value is sealed, readable by its owner only.
func NewKeys(path string, create bool) *Keys {
	return &Keys{path: path, create: create, readFile: ReadFile}
}

// IsSealed says whether a value has the form of what Seal returns.
func IsSealed(value string) bool { return strings.HasPrefix(value, Prefix) }

// Seal makes a value unreadable. It can be opened only as the value of the same
// about, so that sealed values cannot be exchanged for one another.
//
// first is asked only where the file is absent and could be made: whether nothing
// is sealed yet. Else a key has been lost, and another in its place would hide
// that: it is refused. Errors are of KindConflict (code secret_key) where there is
// no usable key.
func (k *Keys) Seal(plain, about string, first func() bool) (string, error) {
	keys, err := k.load()
	if err != nil {
		if k.mayBeMade() && first() {
			if err := makeKeyFile(k.path); err != nil {
				return "", fmt.Errorf("make the key file %s: %w", k.path, err)
			}
		}
		if keys, err = k.load(); err != nil { // it may have been made by others since the first look, too
			return "", err
		}
	}
	key := keys[0]
	nonce := make([]byte, key.aead.NonceSize(), key.aead.NonceSize()+len(plain)+key.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	box := key.aead.Seal(nonce, nonce, []byte(plain), []byte(about))
	return Prefix + key.id + ":" + base64.RawStdEncoding.EncodeToString(box), nil
}

// Renew reads the file again: what is sealed from here on can be opened by whoever has
// the file as it is now. Where it cannot be read, the keys from before go on.
func (k *Keys) Renew() { _, _ = k.readAgain() }

// SealsAnew says whether Seal would seal a value with another key than the one that
// it is sealed with.
func (k *Keys) SealsAnew(sealed string) bool {
	keys, err := k.load()
	return err == nil && !strings.HasPrefix(sealed, Prefix+keys[0].id+":")
}

// Open gives back what Seal was given. Errors are of KindConflict (code
// secret_key) where the key that sealed it is not there, or the value has been
// changed.
func (k *Keys) Open(sealed, about string) (string, error) {
	id, text, ok := strings.Cut(strings.TrimPrefix(sealed, Prefix), ":")
	box, err := base64.RawStdEncoding.DecodeString(text)
	if !ok || !IsSealed(sealed) || err != nil {
		return "", k.refuse("a sealed value cannot be read: it has been changed", "")
	}
	key, err := k.find(id)
	if err != nil {
		return "", err
	}
	n := key.aead.NonceSize()
	if len(box) >= n {
		if plain, err := key.aead.Open(nil, box[:n], box[n:], []byte(about)); err == nil {
			return string(plain), nil
		}
	}
	return "", k.refuse("a sealed value cannot be opened: it has been changed, or was sealed for another place", "")
}

// find returns the key of that id.
func (k *Keys) find(id string) (key, error) {
	ofID := func(key key) bool { return key.id == id }
	keys, err := k.load()
	if err != nil {
		return key{}, err
	}
	i := slices.IndexFunc(keys, ofID)
	if i < 0 { // it may have been added since
		if keys, err = k.readAgain(); err != nil {
			return key{}, err
		}
		i = slices.IndexFunc(keys, ofID)
	}
	if i < 0 {
		return key{}, k.refuse(fmt.Sprintf("a value was sealed with the key %s, which is not in %s", id, k.path),
			"add that key to the file, in a line behind the first")
	}
	return keys[i], nil
}

func (k *Keys) refuse(text, next string) error {
	return &graphmill.Error{Kind: graphmill.KindConflict, Code: "secret_key", Text: text, Next: next}
}

// load returns the keys of the file, at least one.
func (k *Keys) load() ([]key, error) {
	k.mu.Lock()
	read := k.read
	k.mu.Unlock()
	if len(read) > 0 {
		return read, nil
	}
	return k.readAgain()
}

func (k *Keys) readAgain() ([]key, error) {
	k.reading.Lock()
	defer k.reading.Unlock()
	text, _, err := k.readFile(k.path, maxKeyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, k.absent()
	case err != nil:
		return nil, k.refuse(fmt.Sprintf("read the key file %s: %v", k.path, cause(err)), "")
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, k.refuse(fmt.Sprintf("the key file %s: %v", k.path, err), "a key is 32 random bytes in base64, one a line; to make one: openssl rand -base64 32")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read = keys
	return keys, nil
}

// absent is the error where there is no key file. Only a person can say that the
// key is lost for good: by making another.
func (k *Keys) absent() error {
	next := "put it back from a backup, or name it with --secret-key-file"
	if k.create {
		next += fmt.Sprintf("; where it is lost for good, make another: (umask 077; openssl rand -base64 32 > %s)", k.path)
	}
	return k.refuse(fmt.Sprintf("the key file %s is not there", k.path), next)
}

// mayBeMade says that the file is absent and that it is ours to make it.
func (k *Keys) mayBeMade() bool {
	_, err := os.Stat(k.path)
	return k.create && errors.Is(err, fs.ErrNotExist)
}

// Check reads the file now, if it has to be there, so that a wrong setting is
// told when the server starts.
func (k *Keys) Check() error {
	if k.mayBeMade() {
		return nil
	}
	_, err := k.load()
	return err
}

// parseKeys reads the lines of a key file. No error repeats what stands there.
func parseKeys(text []byte) ([]key, error) {
	var keys []key
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxKeyFile)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(raw) != keyBytes {
			return nil, fmt.Errorf("line %d is not a key", n)
		}
		key, err := newKey(raw)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key in it")
	}
	return keys, nil
}

func newKey(raw []byte) (key, error) {
	block, err := aes.NewCipher(raw)
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return key{}, err
	}
	sum := sha256.Sum256(raw)
	return key{id: hex.EncodeToString(sum[:4]), aead: aead}, nil
}

// makeKeyFile makes a file with a new key, unless somebody else is faster. The
// key is durable before anything is sealed with it.
func makeKeyFile(path string) error {
	raw := make([]byte, keyBytes)
	_, _ = rand.Read(raw) // never fails
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, ".key-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = fmt.Fprintf(tmp, "# Graphmill's key for credentials in the catalog. Without it they cannot be read: keep a copy elsewhere.\n%s\n",
		base64.StdEncoding.EncodeToString(raw))
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
