package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ergochat/readline"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api/query"
	"github.com/graphmill/graphmill/api/statement"
)

const (
	firstPrompt = "graphmill> "
	nextPrompt  = "        -> "
	namesFresh  = 5 * time.Second // how long names of the server are offered without asking again
)

const promptHelp = `Statements end with ';' and may go over several lines. TAB completes keywords and
names, ^R searches what was typed before, ^C gives up a statement that is typed or
executed, ^D or exit leaves.

  SHOW STREAMS;            CALL mg.stream_status('name');       CALL mg.transformations();
  CHECK STREAM name;       START STREAM name;                   STOP STREAM name;
  SHOW CREATE STREAM name; ALTER STREAM name SET BATCH_SIZE 10; DROP STREAM name;
  CREATE KAFKA STREAM name TOPICS topic TRANSFORM module.function;
`

// prompt reads statements from a person, until they leave.
func (s *session) prompt(ctx context.Context) error {
	history, err := s.historyFile()
	if err != nil {
		fmt.Fprintf(plainText{s.app.err}, "what is typed will not be remembered: %v\n", err)
	}
	completer := &completer{session: s, ctx: ctx}
	rl, err := readline.NewFromConfig(&readline.Config{
		Prompt: firstPrompt, HistoryFile: history, HistoryLimit: 2 * maxHistory, HistorySearchFold: true, DisableAutoSaveHistory: true,
		AutoComplete: completer, InterruptPrompt: "^C", EOFPrompt: "exit",
	})
	if err != nil {
		return fmt.Errorf("begin a prompt: %w", err)
	}
	defer func() { _ = rl.Close() }()                         // gives the terminal back
	defer context.AfterFunc(ctx, func() { _ = rl.Close() })() // ends ReadLine when a signal ends the program
	fmt.Fprintf(s.app.out, "Connected to %s. Statements end with ';', 'help' tells more.\n", s.client.shown())
	var begun string // lines of a statement without its end
	for {
		rl.SetPrompt(firstPrompt)
		if begun != "" {
			rl.SetPrompt(nextPrompt)
		}
		completer.begun = begun
		line, err := rl.ReadLine()
		switch {
		case errors.Is(err, readline.ErrInterrupt):
			if begun == "" && line == "" {
				fmt.Fprintln(s.app.out, "^D or exit leaves")
			}
			begun = ""
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read what is typed: %w", err)
		}
		if begun == "" {
			switch strings.ToLower(strings.Trim(strings.TrimSpace(line), ":;")) { // none of the statements
			case "help", "?":
				fmt.Fprint(s.app.out, promptHelp)
				continue
			case "exit", "quit":
				return nil
			}
		}
		begun += line + "\n"
		pieces := statement.Split(begun)
		if len(pieces) > 0 && !pieces[len(pieces)-1].Ended {
			continue
		}
		if line := historyLine(begun); line != "" {
			_ = rl.SaveToHistory(line) // a full disk does not end the session
		}
		if err := s.typed(ctx, begun, pieces); err != nil {
			return err
		}
		begun = ""
	}
}

// typed executes statements up to the first that fails, and tells of that. ^C ends
// the one under way. The error is that of a program that is to end.
func (s *session) typed(ctx context.Context, text string, pieces []statement.Piece) error {
	limited, release := s.app.interrupts.take(ctx)
	defer release()
	for _, p := range pieces {
		err := s.execute(limited, text, p)
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return err
		case limited.Err() != nil:
			fmt.Fprintln(s.app.err, "interrupted; what the server has begun may go on")
		default:
			s.app.tell(err)
		}
		return nil
	}
	return nil
}

// maxRemembered is how long a line of the history may be, in bytes.
const maxRemembered = 4 << 10

// historyLine returns what the history remembers of a statement, which is one line;
// empty: nothing, since it is long, a secret may be in it, or a string of it goes over
// lines.
func historyLine(text string) string {
	line, ok := statement.OneLine(text)
	if !ok || len(line) > maxRemembered || graphmill.SecretConfig(line, line) {
		return ""
	}
	return line
}

// Lines of the history: the file is cut to the smaller number when it has more than
// the larger one. The library would do it itself with a file that everybody can read.
const (
	maxHistory  = 2000
	keptHistory = 1000
)

// historyFile returns the file of the history, which only its owner reads; empty:
// there is none.
func (s *session) historyFile() (string, error) {
	dir := s.app.getenv("XDG_STATE_HOME")
	if dir == "" {
		home := s.app.getenv("HOME")
		if home == "" {
			return "", nil
		}
		dir = filepath.Join(home, ".local", "state")
	}
	dir = filepath.Join(dir, "graphmill")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "history")
	return path, cutHistory(path)
}

// cutHistory makes the file, keeps others from it, and cuts what is old.
func cutHistory(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	lines := strings.SplitAfter(string(text), "\n")
	if len(lines) <= maxHistory {
		return nil
	}
	kept := strings.Join(lines[len(lines)-keptHistory:], "")
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(kept), 0)
	return err
}

// completer completes keywords and names at the prompt. It is for one goroutine:
// ReadLine calls Do in that of its caller.
type completer struct {
	session *session
	ctx     context.Context // of the prompt; Do is not given one
	begun   string          // the lines before

	names map[statement.Names]listed
}

// listed are names of the server, and when they were asked for.
type listed struct {
	names []string
	at    time.Time
}

// Do implements readline.AutoCompleter: it returns what may follow the beginning
// of a word, and the length of that.
func (c *completer) Do(line []rune, pos int) ([][]rune, int) {
	may := statement.Complete(c.begun + string(line[:pos]))
	words := slices.Clone(may.Keywords)
	if may.Begun != "" && may.Begun == strings.ToLower(may.Begun) {
		words = lowered(words)
	}
	for _, name := range c.known(may.Names) {
		if may.Names != statement.ProcedureNames {
			name = statement.Name(name) // one that begins with a digit is quoted
		}
		words = append(words, name)
	}
	var rest [][]rune
	for _, w := range words {
		if len(w) >= len(may.Begun) && strings.EqualFold(w[:len(may.Begun)], may.Begun) {
			rest = append(rest, []rune(w[len(may.Begun):]+" "))
		}
	}
	return rest, len([]rune(may.Begun))
}

func lowered(words []string) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = strings.ToLower(w)
	}
	return all
}

// known returns names of a kind; none where the server does not answer soon.
func (c *completer) known(kind statement.Names) []string {
	var list lister
	switch kind {
	case statement.ProcedureNames:
		return query.ProcedureNames()
	case statement.StreamNames:
		list = streamNames
	case statement.TransformationNames:
		list = transformationNames
	default:
		return nil
	}
	if last, ok := c.names[kind]; ok && time.Since(last.at) < namesFresh {
		return last.names
	}
	ctx, cancel := context.WithTimeout(c.ctx, completionLimit)
	defer cancel()
	names, err := list(ctx, c.session.client)
	if err != nil {
		names = nil
	}
	if c.names == nil {
		c.names = map[statement.Names]listed{}
	}
	c.names[kind] = listed{names, time.Now()}
	return names
}
