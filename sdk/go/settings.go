package graphmill

import (
	"errors"
	"strconv"
)

// Settings are the SETTINGS of the stream: what its author hands to the
// transformation. A setting is read like any entry of a map; the methods are for
// what is more than a text.
type Settings map[string]string

// Configure names the function that takes the settings of the stream. Call it in
// init. The function runs once in each instance, before the first message; an
// error stops the stream with its text. Check everything there: an unknown
// setting is most often a mistyped one ([Settings.Only]).
//
// A module that calls Configure nowhere has no settings, and a stream that gives
// it some is refused.
func Configure(take func(Settings) error) { takeSettings = take }

// takeSettings is what Configure was given.
var takeSettings = func(s Settings) error {
	for name := range s {
		return errors.New("this transformation has no settings, " + strconv.Quote(clip(name)) + " was given")
	}
	return nil
}

// Only checks that there are no settings but the named ones. The error names the one
// that was most likely meant, and those that there are.
func (s Settings) Only(names ...string) error {
	known := make(map[string]bool, len(names))
	list := ""
	for i, name := range names {
		known[name] = true
		if i > 0 {
			list += ", "
		}
		list += name
	}
	for name := range s {
		if !known[name] {
			text := "unknown setting " + strconv.Quote(clip(name))
			if near := nearest(name, names); near != "" {
				text += ", did you mean " + near + "?"
			}
			return errors.New(text + "; there are: " + list)
		}
	}
	return nil
}

// nearest returns the name that a mistyped one most likely stands for, or "".
func nearest(given string, names []string) string {
	best, least := "", min(3, (len(given)+2)/3)+1
	for _, name := range names {
		if d := typos(given, name, least); d < least {
			best, least = name, d
		}
	}
	return best
}

// typos counts the bytes that were inserted, left out or changed between two names, as
// far as there are fewer than enough.
func typos(a, b string, enough int) int {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	if a == "" || b == "" || enough <= 1 {
		return len(a) + len(b)
	}
	return 1 + min(typos(a[1:], b, enough-1), typos(a, b[1:], enough-1), typos(a[1:], b[1:], enough-1))
}

// Choice returns a setting that must be one of several words, the first of which
// is the default.
func (s Settings) Choice(name string, words ...string) (string, error) {
	v, ok := s[name]
	if !ok {
		return words[0], nil
	}
	list := ""
	for i, word := range words {
		if v == word {
			return v, nil
		}
		if i > 0 {
			list += ", "
		}
		list += word
	}
	return "", errors.New("setting " + name + ": " + strconv.Quote(clip(v)) + " is not one of: " + list)
}

// Int returns a setting that is an integer, or otherwise where it is not set.
func (s Settings) Int(name string, otherwise int64) (int64, error) {
	v, ok := s[name]
	if !ok {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, errors.New("setting " + name + ": " + strconv.Quote(clip(v)) + " is not an integer")
	}
	return n, nil
}

// Bool returns a setting that is true or false, or otherwise where it is not set.
func (s Settings) Bool(name string, otherwise bool) (bool, error) {
	switch v, ok := s[name]; {
	case !ok:
		return otherwise, nil
	case v == "true":
		return true, nil
	case v == "false":
		return false, nil
	default:
		return false, errors.New("setting " + name + ": " + strconv.Quote(clip(v)) + " is neither true nor false")
	}
}

// readSettings reads a MessagePack map of string to string.
func readSettings(b string) (Settings, error) {
	broken := errors.New("the settings are not a MessagePack map of strings")
	n, b, ok := msgpackLength(b, 0x80, 0x0f, 0, 0xde, 0xdf)
	if !ok {
		return nil, broken
	}
	s := make(Settings)
	for range n {
		var name, value string
		if name, b, ok = msgpackString(b); !ok {
			return nil, broken
		}
		if value, b, ok = msgpackString(b); !ok {
			return nil, broken
		}
		s[name] = value
	}
	if b != "" {
		return nil, broken
	}
	return s, nil
}

func msgpackString(b string) (s, rest string, ok bool) {
	n, b, ok := msgpackLength(b, 0xa0, 0x1f, 0xd9, 0xda, 0xdb)
	if !ok || n > len(b) {
		return "", "", false
	}
	return string([]byte(b[:n])), b[n:], true // a copy: the buffer will be used again
}

// msgpackLength reads the head of a string or a map: its first byte holds the
// length in the bits of mask, beside fix, or says that 1, 2 or 4 bytes of it
// follow. A map has no form with 1.
func msgpackLength(b string, fix, mask, one, two, four byte) (n int, rest string, ok bool) {
	if b == "" {
		return 0, "", false
	}
	head, b := b[0], b[1:]
	var size int
	switch {
	case head&^mask == fix:
		return int(head & mask), b, true
	case one != 0 && head == one:
		size = 1
	case head == two:
		size = 2
	case head == four:
		size = 4
	}
	if size == 0 || len(b) < size {
		return 0, "", false
	}
	for i := range size {
		n = n<<8 | int(b[i])
	}
	return n, b[size:], true
}

// applySettings is graphmill_configure: it hands encoded settings to the module.
func applySettings(encoded string) error {
	s, err := readSettings(encoded)
	if err != nil {
		return err
	}
	return takeSettings(s)
}
