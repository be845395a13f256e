package graph

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/graphmill/graphmill"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j/db"
)

// stage is what was being done when an error came.
type stage uint8

const (
	stageReach  stage = iota // connecting, logging in, BEGIN, EXPLAIN's connection
	stageRun                 // a statement
	stageCommit              // COMMIT
)

// place finds the fault of a database's error.
func place(at stage, e *db.Neo4jError) fault {
	f := ofCode(e.Code, e.Msg)
	if at == stageReach && f.class == graphmill.FaultMessage {
		return faultUnwell // no statement has been sent: it cannot be one's fault
	}
	return f
}

// classify turns an error of the driver into a fault. It is the only place that
// decides what an error means. target names the database in texts; message is
// the one to look at first, where a statement failed.
//
// The fault's text says everything that the error says, so the error itself is
// not wrapped: it would only say it twice.
//
// reached says that the database has let us in before, by the same settings.
func classify(target string, reached bool, at stage, err error, message int) *graphmill.Fault {
	causes := causesOf(err)
	var f fault
	var text string
	if e := find[*db.Neo4jError](causes); e != nil {
		f, text = place(at, e), squeeze(e.Code+": "+e.Msg)
	} else {
		f, text = withoutCode(at, causes, reached), describe(target, err, causes)
	}
	out := f.whole(text)
	if f.class == graphmill.FaultMessage || f.class == graphmill.FaultTooBig {
		out.Message = message
	}
	if at == stageCommit && f.lost {
		out.Unknown = true
		out.Text = "the outcome of a commit is not known: " + text
	}
	return out
}

// describe says what an error that is not the database's means for people.
func describe(target string, err error, causes []error) string {
	text := squeeze(strings.TrimPrefix(err.Error(), "ConnectivityError: "))
	for _, e := range causes {
		switch {
		case e == io.EOF:
			text = "it closed the connection"
		case errors.Is(e, context.DeadlineExceeded):
			text = "it does not answer"
		}
	}
	return "the database at " + target + ": " + text
}

// withoutCode places an error that is not the database's.
func withoutCode(at stage, causes []error, reached bool) fault {
	usage := find[*neo4j.UsageError](causes) != nil || find[*db.UnsupportedTypeError](causes) != nil ||
		find[*db.FeatureNotSupportedError](causes) != nil ||
		hasType(causes, "packstream.OverflowError")
	switch {
	case usage && at == stageRun:
		return faultMessage // a value that cannot be sent
	case usage && at == stageReach, speaksNoBolt(causes), find[*unreadable](causes) != nil:
		return faultIncompatible
	case refusesTLS(causes, reached):
		return faultTLS
	}
	return faultAway
}

func speaksNoBolt(causes []error) bool {
	text := causes[len(causes)-1].Error()
	return strings.Contains(text, "requested Bolt versions") || strings.Contains(text, "offered Bolt versions")
}

// causesOf returns err and everything inside of it, the innermost last. Several
// types of the driver hold their cause in a field and do not unwrap, and some
// of those are internal to it.
func causesOf(err error) []error {
	var causes []error
	for err != nil && len(causes) < 20 {
		causes = append(causes, err)
		err = causeOf(err)
	}
	return causes
}

func causeOf(err error) error {
	if e := errors.Unwrap(err); e != nil {
		return e
	}
	v := reflect.ValueOf(err)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	for _, name := range []string{"Inner", "Err"} {
		if f := v.Elem().FieldByName(name); f.IsValid() && f.CanInterface() {
			if e, ok := f.Interface().(error); ok && e != nil {
				return e
			}
		}
	}
	return nil
}

func find[E error](causes []error) E {
	for _, err := range causes {
		if e, ok := err.(E); ok {
			return e
		}
	}
	var none E
	return none
}

// hasType looks for a type that the driver does not export.
func hasType(causes []error, name string) bool {
	for _, err := range causes {
		if strings.TrimPrefix(fmt.Sprintf("%T", err), "*") == name {
			return true
		}
	}
	return false
}

// squeeze puts a database's message on one line and cuts it to a sane length.
// Neo4j draws an arrow under the culprit, which means nothing on one line.
func squeeze(s string) string {
	return clip(strings.Join(strings.Fields(strings.ToValidUTF8(clip(s, 4000), "?")), " "), 600)
}

// clip cuts s to at most n bytes, at a character's border.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}
