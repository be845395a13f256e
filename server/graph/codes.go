package graph

import (
	"strings"

	"github.com/graphmill/graphmill"
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

// fault is what an error means, whichever statement it is about.
type fault struct {
	class  graphmill.FaultClass
	code   string
	outage bool
	next   string

	// lost says that COMMIT may have been carried out all the same.
	lost bool
	// doubtful says that it may not be the message's fault: see
	// graphmill.Fault.Unfamiliar.
	doubtful bool

	about string // for docs/faults.md
}

// whole makes f a fault of a batch as a whole.
func (f fault) whole(text string) *graphmill.Fault {
	return &graphmill.Fault{
		Class: f.class, Code: f.code, Text: text, Next: f.next, Outage: f.outage,
		Unfamiliar: f.doubtful, Message: graphmill.WholeBatch,
	}
}

// outage is a fault of a database that is away or cannot work, which is waited out.
func outage(code, about, next string) fault {
	return fault{class: graphmill.FaultTransient, code: code, outage: true, about: about, next: next}
}

// losing makes f one with which the answer to a COMMIT may be lost.
func losing(f fault) fault {
	f.lost = true
	return f
}

// setUp is a fault that somebody has to mend.
func setUp(code, about, next string) fault {
	return fault{class: graphmill.FaultSetup, code: code, about: about, next: next}
}

var (
	faultMessage = fault{class: graphmill.FaultMessage, code: codeMessage,
		about: "A statement is refused for its text or its values, and always will be."}
	faultDoubtful = fault{class: graphmill.FaultMessage, code: codeMessage, doubtful: true, lost: true,
		about: "It may be the statement, or a race with another transaction, or something around the database. The batch is tried three times before a message is blamed. So is any error whose code is not on this page."}
	faultConflict = fault{class: graphmill.FaultTransient, code: codeConflict,
		about: "Another transaction was in the way. The batch is tried again after 1 to 20 ms, then longer up to `--stream-transaction-retry-interval`, `--stream-transaction-conflict-retries` times."}
	faultAway = losing(outage(codeUnreachable,
		"The database, or the member of the cluster that takes writes, is away. The stream waits until it answers, without limit.",
		"see whether the database runs and can be reached from here; the stream goes on by itself once it answers"))
	faultExhausted = outage(codeExhausted,
		"All connections that may be opened are in use, or as many logins as may be are under way, and take long.",
		"let fewer streams run at once, or raise --graph-max-connections")
	faultUnwell = losing(outage(codeDatabase,
		"The database is there but cannot work: a full disk, a damaged store. The stream waits.",
		"see the database's own log; the stream goes on by itself once it is well"))
	faultReadOnly = outage(codeReadOnly,
		"The database takes no writes. The stream waits.",
		"make the database writable, or name a server that is; the stream goes on by itself then")
	faultTooBig = fault{class: graphmill.FaultTooBig, code: codeTooBig,
		about: "The transaction took more memory or time than the database gives it. Smaller batches are tried.",
		next:  "lower BATCH_SIZE, or give transactions more memory (of the database) or time (--transaction-timeout)"}
	faultAuth = setUp(codeAuth,
		"The database does not let the server in. It is not tried again: attempts lock the account.",
		"check --graph-user and --graph-password-file, then START the stream")
	faultForbidden = setUp(codeForbidden,
		"The database user lacks a right.",
		"give the database user the rights that the statements need, then START the stream")
	faultNoDatabase = setUp(codeNoDatabase,
		"There is no database of that name.",
		"create the database, or name another one with DATABASE or --graph-database, then START the stream")
	faultTLS = setUp(codeTLS,
		"TLS fails for good: a certificate of nobody known, for another name, or expired, or one of the two sides speaks no TLS. A handshake that ends without a reason is an outage.",
		"check the scheme and the host name of --graph-uri against the server's certificate; +ssc takes any certificate")
	faultIncompatible = losing(setUp(codeIncompatible,
		"What answers is no database, or one too old, or its answers cannot be read.",
		"check that --graph-uri names the Bolt port of a database that speaks Bolt 4.2 or later"))
)

// placed holds the codes that are known, without the vendor in front: all of
// Neo4j 5.26's, those of newer and older servers as far as they matter, and those
// that the driver makes of them. A code's name often misleads: a DatabaseError
// may be a message's fault, and a ClientError a rivalry.
var placed = []struct {
	fault fault
	codes []string
}{
	{faultMessage, []string{
		"ClientError.ChangeDataCapture.InvalidIdentifier",
		"ClientError.Database.ExistingAliasFound",
		"ClientError.Database.ExistingDatabaseFound",
		"ClientError.Fabric.AccessMode",
		"ClientError.General.InvalidArguments",
		"ClientError.Procedure.ProcedureNotFound",
		"ClientError.Procedure.TypeError",
		"ClientError.Request.Invalid", // parameters that it cannot read
		"ClientError.Request.InvalidFormat",
		"ClientError.Schema.ConstraintAlreadyExists",
		"ClientError.Schema.ConstraintNotFound",
		"ClientError.Schema.ConstraintValidationFailed", // also at COMMIT
		"ClientError.Schema.ConstraintViolation",
		"ClientError.Schema.ConstraintWithNameAlreadyExists",
		"ClientError.Schema.EquivalentSchemaRuleAlreadyExists",
		"ClientError.Schema.ForbiddenOnConstraintIndex",
		"ClientError.Schema.IndexAlreadyExists",
		"ClientError.Schema.IndexMultipleFound",
		"ClientError.Schema.IndexNotApplicable",
		"ClientError.Schema.IndexNotFound",
		"ClientError.Schema.IndexWithNameAlreadyExists",
		"ClientError.Schema.RepeatedLabelInSchema",
		"ClientError.Schema.RepeatedPropertyInCompositeSchema",
		"ClientError.Schema.RepeatedRelationshipTypeInSchema",
		"ClientError.Schema.TokenLengthError",
		"ClientError.Schema.TokenNameError",
		"ClientError.Statement.AccessMode",
		"ClientError.Statement.ArgumentError",
		"ClientError.Statement.ArithmeticError",
		"ClientError.Statement.ConstraintVerificationFailed",
		"ClientError.Statement.InvalidTargetDatabaseError",
		"ClientError.Statement.NotSystemDatabaseError",
		"ClientError.Statement.ParameterMissing",
		"ClientError.Statement.PropertyNotFound",
		"ClientError.Statement.RemoteExecutionClientError",
		"ClientError.Statement.RuntimeUnsupportedError",
		"ClientError.Statement.SemanticError", // MERGE by a null key
		"ClientError.Statement.SyntaxError",   // also date('x'), and a parameter of the wrong type
		"ClientError.Statement.TypeError",
		"ClientError.Statement.UnsupportedAdministrationCommand",
		"ClientError.Statement.UnsupportedOperationError",
		"ClientError.Transaction.ForbiddenDueToTransactionType", // schema and data in one transaction
		"ClientError.Transaction.TransactionHookFailed",         // a trigger refuses
		"DatabaseError.ChangeDataCapture.Disabled",
		"DatabaseError.ChangeDataCapture.ScanFailure",
		"DatabaseError.Database.DatabaseLimitReached",
		"DatabaseError.Schema.ConstraintCreationFailed",
		"DatabaseError.Schema.ConstraintDropFailed",
		"DatabaseError.Schema.IndexCreationFailed",
		"DatabaseError.Schema.IndexDropFailed",
		"DatabaseError.Schema.TokenLimitReached",
		"DatabaseError.Statement.ExecutionFailed",          // a value too long for an index
		"DatabaseError.Transaction.TransactionStartFailed", // CALL IN TRANSACTIONS
		"TransientError.General.StackOverFlowError",        // a text nested too deeply
	}},
	{faultDoubtful, []string{
		"ClientError.Procedure.ProcedureCallFailed", // whatever the procedure met
		"ClientError.Procedure.ProcedureRegistrationFailed",
		"ClientError.Statement.EntityNotFound",         // mostly deleted by another transaction meanwhile
		"ClientError.Statement.ExternalResourceFailed", // LOAD CSV: a file or an address that is away, perhaps for now
		"ClientError.Transaction.TransactionMarkedAsFailed",
		"ClientError.Transaction.TransactionValidationFailed",
		"DatabaseError.Fabric.RemoteExecutionFailed",
		"DatabaseError.General.UnknownError",
		"DatabaseError.Schema.LabelAccessFailed",
		"DatabaseError.Schema.PropertyKeyAccessFailed",
		"DatabaseError.Schema.RelationshipTypeAccessFailed",
		"DatabaseError.Schema.SchemaRuleAccessFailed",
		"DatabaseError.Schema.SchemaRuleDuplicateFound",
		"DatabaseError.Statement.RemoteExecutionFailed",
	}},
	{faultConflict, []string{
		"ClientError.Security.AuthorizationExpired", // the driver logs in anew
		"ClientError.Transaction.InvalidBookmark",   // it is left out the next time
		"ClientError.Transaction.InvalidBookmarkMixture",
		"ClientError.Transaction.LockClientStopped", // waiting for a lock until the time was up, or ended by an operator
		"ClientError.Transaction.Terminated",        // by an operator
		"ClientError.Transaction.TransactionAccessedConcurrently",
		"ClientError.Transaction.TransactionNotFound",
		"DatabaseError.Transaction.LinkedTransactionError",
		"TransientError.ChangeDataCapture.FutureIdentifier",
		"TransientError.Security.ModifiedConcurrently",
		"TransientError.Statement.RemoteExecutionTransientError",
		"TransientError.Transaction.BookmarkTimeout",
		"TransientError.Transaction.ConstraintsChanged",
		"TransientError.Transaction.DeadlockDetected",
		"TransientError.Transaction.Interrupted",
		"TransientError.Transaction.LeaseExpired",
		"TransientError.Transaction.LockAcquisitionTimeout",
		"TransientError.Transaction.LockClientStopped",
		"TransientError.Transaction.Outdated",
		"TransientError.Transaction.QueryExecutionFailedOnTransaction",
		"TransientError.Transaction.Terminated",
	}},
	{faultAway, []string{
		"ClientError.Cluster.NotALeader",
		"ClientError.Cluster.Routing",
		"ClientError.Request.InvalidUsage", // answers were not read in time
		"ClientError.Routing.RoutingFailed",
		"ClientError.Security.AuthProviderFailed",
		"ClientError.Security.AuthProviderTimeout",
		"TransientError.Cluster.ReplicationFailure",
		"TransientError.General.DatabaseUnavailable", // stopping, or starting
		"TransientError.Network.CommunicationError",
		"TransientError.Request.NoThreadsAvailable",
		"TransientError.Request.ResourceExhaustion",
		"TransientError.Security.AuthProviderFailed",
		"TransientError.Security.AuthProviderTimeout",
		"TransientError.Transaction.LeaderSwitch",
		"TransientError.Transaction.MaximumTransactionLimitReached",
	}},
	{faultUnwell, []string{
		"ClientError.General.UpgradeRequired",
		"ClientError.Routing.DbmsInPanic",
		"DatabaseError.Database.UnableToStartDatabase",
		"DatabaseError.Database.Unknown",
		"DatabaseError.General.IndexCorruptionDetected",
		"DatabaseError.General.SchemaCorruptionDetected",
		"DatabaseError.General.StorageDamageDetected",
		"DatabaseError.Transaction.TransactionCommitFailed",
		"DatabaseError.Transaction.TransactionLogError",
		"DatabaseError.Transaction.TransactionRollbackFailed",
		"DatabaseError.Transaction.TransactionTerminationFailed",
	}},
	{faultReadOnly, []string{
		"ClientError.General.ForbiddenOnReadOnlyDatabase",
		"ClientError.General.WriteOnReadOnlyAccessDatabase",
	}},
	{faultTooBig, []string{
		"ClientError.General.TransactionOutOfMemoryError",
		"ClientError.Procedure.ProcedureTimedOut",
		"ClientError.Transaction.TransactionTimedOut",
		"ClientError.Transaction.TransactionTimedOutClientConfiguration",
		"TransientError.General.MemoryPoolOutOfMemoryError",
		"TransientError.General.OutOfMemoryError",
		"TransientError.General.TransactionMemoryLimit",
		"TransientError.General.TransactionOutOfMemoryError",
		"TransientError.Statement.ExecutionTimeout",
	}},
	{faultAuth, []string{
		"ClientError.Security.AuthenticationRateLimit",
		"ClientError.Security.CredentialsExpired",
		"ClientError.Security.TokenExpired",
		"ClientError.Security.Unauthenticated", // Memgraph's
		"ClientError.Security.Unauthorized",
	}},
	{faultForbidden, []string{"ClientError.Security.Forbidden"}},
	{faultNoDatabase, []string{
		"ClientError.Database.DatabaseNotFound",
		"ClientError.Database.HomeDatabaseNotFound",
		"ClientError.Database.IllegalAliasChain",
	}},
}

// families place codes that the list does not hold, by their first words; the
// first counts. Anything else is doubtful: a newer database knows errors that we
// do not.
var families = []struct {
	prefix string
	fault  fault
}{
	{"TransientError.Cluster.", faultAway},
	{"TransientError.Database.", faultAway},
	{"TransientError.", faultConflict},
	{"ClientError.Security.", faultAuth},
	{"ClientError.Cluster.", faultAway},
	{"ClientError.Routing.", faultAway},
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
	{"access to the storage", faultConflict}, // somebody changes the schema
	{"access storage", faultConflict},
	{"replica has not confirmed", faultAway},
	{"forbidden on the replica", faultReadOnly},
	{"forbidden on the main", faultReadOnly},
	{"read-only mode", faultReadOnly},
	{"unknown database", faultNoDatabase},
	{"not authorized", faultForbidden},

	{"constraint violation", faultMessage},
	{"mismatched input", faultMessage},
	{"extraneous input", faultMessage},
	{"no viable alternative", faultMessage},
	{"unbound variable", faultMessage},
	{"not provided", faultMessage}, // a parameter
	{"multicommand transactions", faultMessage},
}

// ofCode finds what a database's error means.
func ofCode(code, text string) fault {
	vendor, code, _ := strings.Cut(code, ".")
	if vendor == "Memgraph" {
		text = strings.ToLower(text)
		for _, m := range memgraphTexts {
			if strings.Contains(text, m.text) {
				return m.fault
			}
		}
	}
	for _, p := range placed {
		for _, c := range p.codes {
			if c == code {
				return p.fault
			}
		}
	}
	for _, f := range families {
		if strings.HasPrefix(code, f.prefix) {
			return f.fault
		}
	}
	return faultDoubtful
}
