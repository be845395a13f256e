package statement

import (
	"sync"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// The grammar, as participle reads it: the types hold what was written where, and
// no more. One token ahead decides everywhere. Words in single quotes are
// keywords, in any case; every keyword may be a name too, where a name stands.
type (
	root struct {
		Verb verb `parser:"@@ ';'?"`
	}

	verb interface{ verb() }

	create struct {
		Pulsar  bool     `parser:"'CREATE' ( 'KAFKA' | @'PULSAR' ) 'STREAM'"`
		Name    *word    `parser:"@@"`
		Options []option `parser:"@@*"`
	}
	alter struct {
		Name  *word    `parser:"'ALTER' 'STREAM' @@ 'SET'"`
		First option   `parser:"@@"`
		More  []option `parser:"@@*"`
		From  *word    `parser:"( 'FROM' @@ )?"`
	}
	start struct {
		All     bool     `parser:"'START' ( @'ALL' 'STREAMS' |"`
		Name    *word    `parser:"'STREAM' @@"`
		Limit   *literal `parser:"( 'BATCH_LIMIT' @@ )?"`
		Timeout *literal `parser:"( 'TIMEOUT' @@ )? )"`
	}
	stop struct {
		All  bool  `parser:"'STOP' ( @'ALL' 'STREAMS'"`
		Name *word `parser:"| 'STREAM' @@ )"`
	}
	drop struct {
		Name *word `parser:"'DROP' 'STREAM' @@"`
	}
	show struct {
		Streams bool  `parser:"'SHOW' ( @'STREAMS'"`
		Create  *word `parser:"| 'CREATE' 'STREAM' @@ )"`
	}
	check struct {
		Name    *word    `parser:"'CHECK' 'STREAM' @@"`
		Limit   *literal `parser:"( 'BATCH_LIMIT' @@ )?"`
		Timeout *literal `parser:"( 'TIMEOUT' @@ )?"`
		From    *word    `parser:"( 'FROM' @@ )?"`
	}
	call struct {
		Pos       lexer.Position
		Procedure []string     `parser:"'CALL' @(Word | Quoted) ( '.' @(Word | Quoted) )*"`
		Arguments []*literal   `parser:"'(' ( @@ ( ',' @@ )* )? ')'"`
		All       bool         `parser:"( 'YIELD' ( @'*'"`
		Yield     []*yieldItem `parser:"| @@ ( ',' @@ )* ) )?"`
	}
	yieldItem struct {
		Pos  lexer.Position
		Name string `parser:"@(Word | Quoted)"`
		As   string `parser:"( 'AS' @(Word | Quoted) )?"`
	}

	option interface {
		head() (keyword string, pos lexer.Position)
	}

	topicsOption struct {
		Pos     lexer.Position
		Keyword string   `parser:"@'TOPICS'"`
		List    []*words `parser:"@@ ( ',' @@ )*"`
	}
	serversOption struct {
		Pos     lexer.Position
		Keyword string     `parser:"@'BOOTSTRAP_SERVERS'"`
		List    []*literal `parser:"@@ ( ',' @@ )*"`
	}
	wordsOption struct {
		Pos     lexer.Position
		Keyword string   `parser:"@'ALLOW'"`
		List    []*words `parser:"@@ ( ',' @@ )*"`
	}
	wordOption struct {
		Pos     lexer.Position
		Keyword string `parser:"@( 'TRANSFORM' | 'CONSUMER_GROUP' | 'START_FROM' | 'DELIVERY' | 'ON_FAILURE' | 'COALESCE' | 'DATABASE' | 'DEAD_LETTER_TOPIC' | 'CHECKPOINT_ID' | 'SUBSCRIPTION' | 'SUBSCRIPTION_TYPE' )"`
		Word    *word  `parser:"@@"`
	}
	literalOption struct {
		Pos     lexer.Position
		Keyword string   `parser:"@( 'BATCH_SIZE' | 'BATCH_INTERVAL' | 'BATCH_BYTES' | 'MEMORY_LIMIT' | 'TIME_LIMIT' | 'RESPONSE_LIMIT' | 'PARALLELISM' | 'ISOLATION_LIMIT' | 'SERVICE_URL' | 'TOPICS_PATTERN' )"`
		Literal *literal `parser:"@@"`
	}
	mapOption struct {
		Pos     lexer.Position
		Keyword string        `parser:"@( 'CONFIGS' | 'CREDENTIALS' | 'SETTINGS' )"`
		Map     *mapNode      `parser:"( @@"`
		Other   *otherThanMap `parser:"| @@ )"`
	}
	otherThanMap struct {
		Pos       lexer.Position
		Parameter string `parser:"@Parameter"`
		Null      bool   `parser:"| @'NULL'"`
	}

	// word stands where a name is wanted: bare, perhaps with dots and dashes, or
	// quoted, or as a parameter.
	word struct {
		Pos       lexer.Position
		Parts     []string `parser:"@(Word | Quoted) ( @('.' | '-') @(Word | Quoted) )*"`
		String    string   `parser:"| @String"`
		Parameter string   `parser:"| @Parameter"`
	}
	// words stand where several names may stand.
	words struct {
		Word *word     `parser:"@@"`
		List *listNode `parser:"| @@"`
	}
	// literal stands where a value is wanted.
	literal struct {
		Pos       lexer.Position
		String    string    `parser:"@String"`
		Parameter string    `parser:"| @Parameter"`
		Word      string    `parser:"| @('TRUE' | 'FALSE' | 'NULL')"`
		Minus     bool      `parser:"| ( @'-'?"`
		Number    string    `parser:"    @(Digits | Float) )"`
		List      *listNode `parser:"| @@"`
		Map       *mapNode  `parser:"| @@"`
	}
	listNode struct {
		Pos   lexer.Position
		Items []*literal `parser:"'[' ( @@ ( ',' @@ )* )? ']'"`
	}
	mapNode struct {
		Pos     lexer.Position
		Entries []*mapEntry `parser:"'{' ( @@ ( ',' @@ )* )? '}'"`
	}
	mapEntry struct {
		Key   *literal `parser:"@@ ':'"`
		Value *literal `parser:"@@"`
	}
)

func (*create) verb() {}
func (*alter) verb()  {}
func (*start) verb()  {}
func (*stop) verb()   {}
func (*drop) verb()   {}
func (*show) verb()   {}
func (*check) verb()  {}
func (*call) verb()   {}

func (o *topicsOption) head() (string, lexer.Position)  { return o.Keyword, o.Pos }
func (o *serversOption) head() (string, lexer.Position) { return o.Keyword, o.Pos }
func (o *wordsOption) head() (string, lexer.Position)   { return o.Keyword, o.Pos }
func (o *wordOption) head() (string, lexer.Position)    { return o.Keyword, o.Pos }
func (o *literalOption) head() (string, lexer.Position) { return o.Keyword, o.Pos }
func (o *mapOption) head() (string, lexer.Position)     { return o.Keyword, o.Pos }

// parser is built when it is first needed, which most commands of the program never
// do. It is safe for concurrent use.
var parser = sync.OnceValue(func() *participle.Parser[root] {
	return participle.MustBuild[root](
		participle.Lexer(tokens),
		participle.Elide("Comment", "Space"),
		participle.CaseInsensitive("Word"),
		participle.Union[verb](&create{}, &alter{}, &start{}, &stop{}, &drop{}, &show{}, &check{}, &call{}),
		participle.Union[option](&topicsOption{}, &serversOption{}, &wordsOption{}, &wordOption{}, &literalOption{}, &mapOption{}),
	)
})
