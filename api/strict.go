package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// Bounds of a JSON body. A body is decoded into values that take a hundred
// times its size where they are many and small, so the size alone bounds
// nothing.
const (
	maxJSONValues = 500_000
	maxJSONDepth  = 64
)

// bodyChecker looks at a JSON body before it is decoded, and refuses what
// encoding/json would take without a word: a field given twice, a field in other
// letters (Name for name), a number that the field cannot hold, null for a number or
// a boolean, bytes that are no UTF-8. It keeps nothing of the body but the names of the fields around the
// place that it looks at.
//
// What is no JSON at all it leaves to the decoder, which says where.
type bodyChecker struct {
	schemas huma.Registry
	decoder *json.Decoder
	values  int
	path    []string // of the value in hand: "messages", "[3]", "key"
}

// checkJSON checks a body against the schema that it is to have. The error is a
// *Problem.
func checkJSON(body []byte, schema *huma.Schema, schemas huma.Registry) error {
	if !utf8.Valid(body) {
		return newProblem(http.StatusBadRequest, "malformed", "the JSON is no valid UTF-8, first at byte %d", firstInvalid(body))
	}
	c := &bodyChecker{schemas: schemas, decoder: json.NewDecoder(bytes.NewReader(body))}
	c.decoder.UseNumber()
	return c.value(schema, 0)
}

func firstInvalid(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// value checks the next value. schema is nil where none is known.
func (c *bodyChecker) value(schema *huma.Schema, depth int) error {
	if c.values++; c.values > maxJSONValues {
		return newProblem(http.StatusRequestEntityTooLarge, "too_large", "the JSON has more than %d values, the most that are taken at once", maxJSONValues)
	}
	if depth > maxJSONDepth {
		return c.wrong("the JSON is nested more than %d deep", maxJSONDepth)
	}
	for schema != nil && schema.Ref != "" {
		schema = c.schemas.SchemaFromRef(schema.Ref)
	}
	token, err := c.decoder.Token()
	if err != nil {
		return nil // no JSON: the decoder tells
	}
	switch token := token.(type) {
	case nil:
		if isScalar(schema) && !schema.Nullable {
			return c.wrong("it is null; give a value, or leave the field out")
		}
	case json.Delim:
		if token == '{' {
			return c.object(schema, depth)
		}
		return c.array(schema, depth)
	case json.Number:
		return c.number(schema, token.String())
	}
	return nil
}

// isScalar says whether a schema is of a number or boolean. encoding/json takes null
// for zero there, which may mean something: a script whose variable was empty does
// not ask for that.
func isScalar(schema *huma.Schema) bool {
	return schema != nil && (schema.Type == huma.TypeInteger || schema.Type == huma.TypeNumber || schema.Type == huma.TypeBoolean)
}

func (c *bodyChecker) array(schema *huma.Schema, depth int) error {
	var items *huma.Schema
	if schema != nil {
		items = schema.Items
	}
	for i := 0; c.decoder.More(); i++ {
		if err := c.within("["+strconv.Itoa(i)+"]", items, depth); err != nil {
			return err
		}
	}
	_, _ = c.decoder.Token() // ]
	return nil
}

func (c *bodyChecker) object(schema *huma.Schema, depth int) error {
	seen := map[string]bool{}
	for c.decoder.More() {
		token, err := c.decoder.Token()
		if err != nil {
			return nil
		}
		name, _ := token.(string)
		if seen[name] {
			return c.field(name, "is given twice")
		}
		seen[name] = true
		of, known := fieldSchema(schema, name)
		if known != name {
			return c.field(name, "there is no such field; did you mean %s?", known)
		}
		if err := c.within(name, of, depth); err != nil {
			return err
		}
	}
	_, _ = c.decoder.Token() // }
	return nil
}

// fieldSchema returns the schema of a field, nil where none is known, and the
// name that the field has where it is written in other letters.
func fieldSchema(schema *huma.Schema, name string) (*huma.Schema, string) {
	if schema == nil {
		return nil, name
	}
	if of := schema.Properties[name]; of != nil {
		return of, name
	}
	for known := range schema.Properties {
		if strings.EqualFold(known, name) {
			return nil, known
		}
	}
	of, _ := schema.AdditionalProperties.(*huma.Schema)
	return of, name
}

// within checks a value one step further in.
func (c *bodyChecker) within(step string, schema *huma.Schema, depth int) error {
	c.path = append(c.path, step)
	err := c.value(schema, depth+1)
	c.path = c.path[:len(c.path)-1]
	return err
}

// number checks that an integer fits into its field; 1e3 is none to Go.
func (c *bodyChecker) number(schema *huma.Schema, text string) error {
	if schema == nil || schema.Type != huma.TypeInteger || strings.ContainsRune(text, '.') {
		return nil // a fraction is told by the schema
	}
	bits := 64
	if schema.Format == "int32" {
		bits = 32
	}
	if _, err := strconv.ParseInt(text, 10, bits); err != nil {
		return c.wrong("%.40s is no integer of %d bits, written with digits alone", text, bits)
	}
	return nil
}

func (c *bodyChecker) field(name, format string, args ...any) error {
	c.path = append(c.path, name)
	return c.wrong(format, args...)
}

// wrong is the error of the value in hand.
func (c *bodyChecker) wrong(format string, args ...any) error {
	field := cut(strings.ReplaceAll(strings.Join(c.path, "."), ".[", "["), maxFieldBytes)
	detail := fmt.Sprintf(format, args...)
	if field != "" {
		detail = field + ": " + detail
	}
	p := newProblem(http.StatusUnprocessableEntity, "invalid", "%s", detail)
	p.Field = field
	return p
}

// MessageDecoder returns a function that reads one message in JSON as strictly
// as the API reads a body. The function is not safe for concurrent use.
func MessageDecoder() func(doc []byte) (Message, error) {
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	schema := schemas.Schema(reflect.TypeFor[Message](), true, "")
	return func(doc []byte) (Message, error) {
		var m Message
		if err := checkJSON(doc, schema, schemas); err != nil {
			return m, errors.New(err.Error()) // a Problem is what a server answers
		}
		dec := json.NewDecoder(bytes.NewReader(doc))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&m); err != nil {
			return m, messageError(err)
		}
		if dec.More() {
			return m, errors.New("something follows the message; one message a line")
		}
		return m, nil
	}
}

// messageError explains why JSON is no message, in the words of who wrote it.
func messageError(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		text := wrongType(wrong)
		switch {
		case wrong.Field == "":
			return fmt.Errorf(`a message is an object such as {"payload": "text"}, this is %s`, jsonKind(wrong.Value))
		case wrong.Field == "payload" || wrong.Field == "key":
			text += fmt.Sprintf(`; put its JSON in quotes, as in {%q: "{\"id\": 7}"}, or give %s_base64`, wrong.Field, wrong.Field)
		}
		return errors.New(text)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON ends before it is complete")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("there is no field %s", name)
	}
	return err
}

// wrongType says which kind of value belongs in a field.
func wrongType(wrong *json.UnmarshalTypeError) string {
	of := wrong.Type
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	var want string
	switch of.Kind() {
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "true or false"
	case reflect.Float32, reflect.Float64:
		want = "a number"
	case reflect.Slice, reflect.Array:
		want = "an array"
	case reflect.Struct, reflect.Map:
		want = "an object"
	default:
		want = "an integer"
	}
	text := fmt.Sprintf("it is %s, and this is %s", want, jsonKind(wrong.Value))
	if want == "a number" && strings.HasPrefix(wrong.Value, "number ") {
		text = "a number is beyond what a float of 64 bits holds"
	}
	if wrong.Field == "" {
		return text
	}
	return wrong.Field + ": " + text
}

// jsonKind is encoding/json's word for a value with its article.
func jsonKind(value string) string {
	switch {
	case value == "bool":
		return "true or false"
	case strings.HasPrefix(value, "number "):
		return "the number" + cut(strings.TrimPrefix(value, "number"), 40) // one that the field cannot hold
	case value == "array" || value == "object":
		return "an " + value
	}
	return "a " + value
}
