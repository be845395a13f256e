package graph

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/graphmill/graphmill"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j"
	"github.com/neo4j/neo4j-go-driver/v5/neo4j/db"
)

// Reason codes of faults. They stand in a stream's status, so they are stable.
const (
	codeMessage      = "message"
	codeNotAllowed   = "not_allowed"
	codeConflict     = "conflict"
	codeTooBig       = "too_big"
	codeUnreachable  = "database_unreachable"
	codeExhausted    = "connections_exhausted"
	codeReadOnly     = "database_read_only"
	codeDatabase     = "database_error"
	codeAuth         = "auth"
	codeForbidden    = "forbidden"
	codeNoDatabase   = "database_not_found"
	codeTLS          = "tls"
	codeIncompatible = "database_incompatible"
)

// stage is what was being done when an error came.
type stage uint8

const (
	stageReach  stage = iota // connecting, logging in, BEGIN, EXPLAIN's connection
	stageRun                 // a statement
	stageCommit              // COMMIT
)

// fault is what an error means, whichever statement it is about.
type fault struct {
	class  graphmill.FaultClass
	code   string
	outage bool
	next   string
}

var (
	faultMessage  = fault{class: graphmill.FaultMessage, code: codeMessage}
	faultConflict = fault{class: graphmill.FaultTransient, code: codeConflict}
	faultAway     = fault{class: graphmill.FaultTransient, code: codeUnreachable, outage: true,
		next: "see whether the database runs and can be reached from here; the stream goes on by itself once it answers"}
	faultUnwell = fault{class: graphmill.FaultTransient, code: codeDatabase, outage: true,
		next: "see the database's own log; the stream goes on by itself once it is well"}
	faultReadOnly = fault{class: graphmill.FaultTransient, code: codeReadOnly, outage: true,
		next: "make the database writable, or name a server that is; the stream goes on by itself then"}
	faultTooBig = fault{class: graphmill.FaultTooBig, code: codeTooBig,
		next: "lower BATCH_SIZE, or give transactions of the database more memory or time"}
	faultAuth = fault{class: graphmill.FaultSetup, code: codeAuth,
		next: "check --graph-user and --graph-password-file, then START the stream"}
	faultForbidden = fault{class: graphmill.FaultSetup, code: codeForbidden,
		next: "give the database user the rights that the statements need, then START the stream"}
	faultNoDatabase = fault{class: graphmill.FaultSetup, code: codeNoDatabase,
		next: "create the database, or name another one with DATABASE or --graph-database, then START the stream"}
	faultTLS = fault{class: graphmill.FaultSetup, code: codeTLS,
		next: "check the scheme and the host name of --graph-uri against the server's certificate; +ssc takes any certificate"}
	faultIncompatible = fault{class: graphmill.FaultSetup, code: codeIncompatible,
		next: "check that --graph-uri names the Bolt port of a database that speaks Bolt 4.2 or later"}
)

// byCode holds the codes whose name misleads, or that the rules of byName do
// not place right. Without the vendor in front.
var byCode = map[string]fault{
	// Of a message, though the class says that the database is at fault: a value
	// too long for an index, CALL IN TRANSACTIONS inside of a transaction, a
	// text nested too deeply.
	"DatabaseError.Statement.ExecutionFailed":            faultMessage,
	"DatabaseError.Transaction.TransactionStartFailed":   faultMessage,
	"TransientError.General.StackOverFlowError":          faultMessage,
	"TransientError.General.MemoryPoolOutOfMemoryError":  faultTooBig,
	"TransientError.General.TransactionOutOfMemoryError": faultTooBig,
	"TransientError.General.OutOfMemoryError":            faultTooBig,

	"ClientError.Transaction.TransactionTimedOut":                    faultTooBig,
	"ClientError.Transaction.TransactionTimedOutClientConfiguration": faultTooBig,

	// Rivalry, though the class says that the client is at fault. The driver
	// itself turns the first two from TransientError into ClientError.
	"ClientError.Transaction.LockClientStopped":      faultConflict,
	"ClientError.Transaction.Terminated":             faultConflict,
	"ClientError.Transaction.InvalidBookmark":        faultConflict,
	"ClientError.Transaction.InvalidBookmarkMixture": faultConflict,

	"TransientError.General.DatabaseUnavailable": faultAway,
	"TransientError.Transaction.LeaderSwitch":    faultAway,
	"TransientError.Network.CommunicationError":  faultAway,
	"TransientError.Request.NoThreadsAvailable":  faultAway,
	"ClientError.Security.AuthProviderTimeout":   faultAway,
	"ClientError.Security.AuthProviderFailed":    faultAway,
	"ClientError.Security.AuthorizationExpired":  faultConflict,
	"ClientError.Security.Forbidden":             faultForbidden,
	"ClientError.Database.DatabaseNotFound":      faultNoDatabase,
	"ClientError.Database.HomeDatabaseNotFound":  faultNoDatabase,

	"ClientError.General.ForbiddenOnReadOnlyDatabase":   faultReadOnly,
	"ClientError.General.WriteOnReadOnlyAccessDatabase": faultReadOnly,

	// The store is broken or full, whatever the statements are.
	"DatabaseError.Transaction.TransactionLogError":     faultUnwell,
	"DatabaseError.Transaction.TransactionCommitFailed": faultUnwell,
	"DatabaseError.General.StorageDamageDetected":       faultUnwell,
	"DatabaseError.General.IndexCorruptionDetected":     faultUnwell,
	"DatabaseError.General.SchemaCorruptionDetected":    faultUnwell,
}

// byName places a code that the list does not hold. Anything unknown is of the
// message: a database's own error says what it is.
func byName(code string) fault {
	switch {
	case strings.HasPrefix(code, "TransientError.Cluster."), strings.HasPrefix(code, "TransientError.Database."):
		return faultAway
	case strings.HasPrefix(code, "TransientError."):
		return faultConflict
	case strings.HasPrefix(code, "ClientError.Security."):
		return faultAuth
	case strings.HasPrefix(code, "ClientError.Cluster."):
		return faultAway
	}
	return faultMessage
}

// memgraphTexts place the errors of Memgraph, which has one code for nearly
// everything. In lower case; the first that the message holds counts.
var memgraphTexts = []struct {
	text  string
	fault fault
}{
	{"memory limit exceeded", faultTooBig},
	{"transaction timeout", faultTooBig},
	{"database shutdown", faultAway},
	{"cannot resolve conflicting transactions", faultConflict},
	{"asked to abort", faultConflict},
	{"replica has not confirmed", faultAway},
	{"forbidden on the replica", faultReadOnly},
	{"forbidden on the main", faultReadOnly},
	{"read-only mode", faultReadOnly},
	{"unknown database", faultNoDatabase},
}

// place finds the fault of a database's error.
func place(at stage, e *db.Neo4jError) fault {
	vendor, code, _ := strings.Cut(e.Code, ".")
	if vendor == "Memgraph" {
		message := strings.ToLower(e.Msg)
		for _, m := range memgraphTexts {
			if strings.Contains(message, m.text) {
				return m.fault
			}
		}
	}
	f, ok := byCode[code]
	if !ok {
		f = byName(code)
	}
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
func classify(target string, at stage, err error, message int) *graphmill.Fault {
	causes := causesOf(err)
	var f fault
	var text string
	if e := find[*db.Neo4jError](causes); e != nil {
		f, text = place(at, e), e.Code+": "+squeeze(e.Msg)
	} else {
		f, text = withoutCode(at, causes), describe(target, err, causes)
	}
	out := &graphmill.Fault{
		Class: f.class, Code: f.code, Text: text, Next: f.next, Outage: f.outage,
		Message: graphmill.WholeBatch,
	}
	if f.class == graphmill.FaultMessage || f.class == graphmill.FaultTooBig {
		out.Message = message
	}
	if at == stageCommit && f.outage {
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
func withoutCode(at stage, causes []error) fault {
	usage := find[*neo4j.UsageError](causes) != nil || find[*db.UnsupportedTypeError](causes) != nil ||
		hasType(causes, "packstream.OverflowError")
	switch {
	case usage && at == stageRun:
		return faultMessage // a value that cannot be sent
	case usage && at == stageReach, speaksNoBolt(causes):
		return faultIncompatible
	case refusesTLS(causes):
		return faultTLS
	}
	return faultAway
}

func speaksNoBolt(causes []error) bool {
	text := causes[len(causes)-1].Error()
	return strings.Contains(text, "requested Bolt versions") || strings.Contains(text, "offered Bolt versions")
}

// refusesTLS tells a server that will never be let in, or never let us in, from
// one that went away during the handshake.
func refusesTLS(causes []error) bool {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		authority    x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
		alert        *net.OpError
	)
	for _, err := range causes {
		switch {
		case errors.As(err, &verification), errors.As(err, &record), errors.As(err, &authority),
			errors.As(err, &host), errors.As(err, &invalid):
			return true
		case errors.As(err, &alert) && alert.Op == "remote error": // an alert of the other side
			return true
		}
	}
	return false
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
	return clip(strings.Join(strings.Fields(s), " "), 600)
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
