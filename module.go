package graphmill

import (
	"fmt"
	"strings"
	"time"
)

// Module is one version of an uploaded transformation artefact.
type Module struct {
	Name            string    `json:"name"`
	Version         int       `json:"version"` // 1, 2, ... within the name
	SHA256          string    `json:"sha256"`  // of the uploaded bytes, hexadecimal
	Size            int64     `json:"size"`    // bytes
	ContentType     string    `json:"content_type"`
	Transformations []string  `json:"transformations"` // exported functions, sorted
	CreatedAt       time.Time `json:"created_at"`
	Active          bool      `json:"active"`    // streams use this version
	ReadOnly        bool      `json:"read_only"` // lies beside the program
}

// TransformationRef names an exported function of a module, as TRANSFORM does.
type TransformationRef struct {
	Module   string
	Function string
}

// DefaultFunction is the function meant where only a module is named.
const DefaultFunction = "transform"

// ParseTransformationRef reads "module.function". It is cut at the last dot; a
// name without a dot means the function "transform".
func ParseTransformationRef(s string) (TransformationRef, error) {
	ref := TransformationRef{Module: s, Function: DefaultFunction}
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		ref = TransformationRef{Module: s[:i], Function: s[i+1:]}
	}
	if err := ValidateName("transform", ref.Module); err != nil {
		return TransformationRef{}, err
	}
	if ref.Function == "" {
		return TransformationRef{}, Invalid("transform", "no function after the dot in %q", s)
	}
	return ref, nil
}

// String returns module.function.
func (r TransformationRef) String() string { return r.Module + "." + r.Function }

// MaxNameLength is the longest name of a stream or a module, in bytes.
const MaxNameLength = 200

// ValidateName checks the name of a stream or a module: letters, digits, '_',
// '-' and '.', not beginning with '.' or '-', at most MaxNameLength bytes. The
// error is of KindInvalid and names field.
func ValidateName(field, name string) error {
	switch {
	case name == "":
		return Invalid(field, "a name is needed")
	case len(name) > MaxNameLength:
		return Invalid(field, "the name has %d bytes, %d are the most", len(name), MaxNameLength)
	case name[0] == '.' || name[0] == '-':
		return Invalid(field, "the name %q begins with %q", name, name[0])
	}
	for _, c := range name {
		ok := c == '_' || c == '-' || c == '.' ||
			c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !ok {
			return Invalid(field, "the name %s holds %q; letters, digits, '_', '-' and '.' may stand in a name", clip(name), c)
		}
	}
	return nil
}

// clip quotes a name from outside, cut short for a message.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		return fmt.Sprintf("%q...", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
