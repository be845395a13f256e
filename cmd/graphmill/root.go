package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// app is the program's surroundings.
type app struct {
	in       io.Reader
	out, err io.Writer
	environ  []string // NAME=value
	compiler []string // wasmhost.Config.Compiler

	interrupts *interrupts // nil: nobody but the program takes ^C
}

// getenv returns the value of a variable, or "".
func (a *app) getenv(name string) string {
	value, _ := a.lookupEnv(name)
	return value
}

// lookupEnv returns the value of a variable, if it is set.
func (a *app) lookupEnv(name string) (value string, ok bool) {
	for _, kv := range a.environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// terminal is standard output where it is a terminal, else nil.
func (a *app) terminal() *os.File {
	out := a.out
	if c, ok := out.(*checkedWriter); ok {
		out = c.w
	}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// onTerminal tells whether standard output is read by a person.
func (a *app) onTerminal() bool { return a.terminal() != nil }

// run carries out one command line and returns the exit status.
func (a *app) run(ctx context.Context, args []string) int {
	out := &checkedWriter{w: a.out}
	a.out = out
	root := a.rootCommand()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil && out.err != nil {
		err = fmt.Errorf("write the output: %w", rootCause(out.err))
	}
	if err == nil {
		return exitDone
	}
	return a.report(ctx, cmd, err)
}

// report tells an error to the user: what is wrong, and the next step.
func (a *app) report(ctx context.Context, cmd *cobra.Command, err error) int {
	var (
		usage  *usageError
		silent *silentError
	)
	if errors.As(err, &silent) {
		return exitFailed
	}
	status := exitFailed
	text, next := explain(err)
	switch {
	case errors.As(err, &usage):
		status = exitUsage
		if next == "" {
			next = cmd.CommandPath() + " --help"
		}
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		text, next = "interrupted", ""
	}
	a.tellError(text, next, err)
	return status
}

// tell tells an error that does not end the program.
func (a *app) tell(err error) {
	text, next := explain(err)
	a.tellError(text, next, err)
}

func (a *app) tellError(text, next string, err error) {
	w := plainText{a.err}
	fmt.Fprintf(w, "error: %s\n", text)
	var wrong *statementError
	if errors.As(err, &wrong) {
		fmt.Fprint(w, wrong.where())
	}
	if p := asProblem(err); p != nil {
		for _, e := range p.Errors {
			fmt.Fprintf(w, "  %s: %s\n", e.Field, e.Detail)
		}
	}
	if next != "" {
		fmt.Fprintf(w, "next:  %s\n", next)
	}
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

// explain returns what an error says to people, and the next step if it knows
// one.
func explain(err error) (text, next string) {
	var (
		usage   *usageError
		problem *api.Problem
		known   *graphmill.Error
		fault   *graphmill.Fault
	)
	switch {
	case errors.As(err, &usage):
		next = usage.next
	case errors.As(err, &problem):
		next = problem.NextStep
		if problem.Status == 500 && problem.RequestID != "" {
			next = fmt.Sprintf("the server's log tells more; look for request_id=%s", problem.RequestID)
		}
	case errors.As(err, &known):
		next = known.Next
	case errors.As(err, &fault):
		return faultText(fault), fault.Next // without the code
	}
	return err.Error(), next
}

// faultText is a fault's text with its cause, without its code.
func faultText(f *graphmill.Fault) string {
	if f.Err != nil {
		return fmt.Sprintf("%s: %v", f.Text, f.Err)
	}
	return f.Text
}

// usageError is a wrong command line: exit status 2.
type usageError struct {
	text string
	next string // empty: the command's help
}

func (e *usageError) Error() string { return e.text }

func wrongUsage(format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

// silentError makes the command fail; what is wrong has been printed.
type silentError struct{}

func (*silentError) Error() string { return "failed" }

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "graphmill",
		Short: "Streams of messages into a graph",
		Long: `Graphmill reads messages of Kafka, Redpanda or Pulsar in batches, passes each batch
through a transformation compiled to WebAssembly, executes the statements that
come back in a graph database in one transaction, and only then acknowledges.`,
		Example: `  # try it: a broker is built in, and statements go to a file
  graphmill dev

  # in another terminal: a stream whose query needs no code
  echo '{"userId": 7}' | graphmill produce clicks
  graphmill stream create clicks --topics clicks --transform cypher.event \
      --start-from earliest --setting query='MERGE (u:User {id: $event.userId})'
  graphmill stream check clicks
  graphmill stream start clicks

  # for real: the statements go to a database
  graphmill serve --graph-uri bolt://127.0.0.1:7687 --graph-user neo4j \
      --graph-password-file password.txt --kafka-bootstrap-servers 127.0.0.1:9092`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(
		&cobra.Group{ID: "server", Title: "Run a server:"},
		&cobra.Group{ID: "client", Title: "Work with a running server:"},
		&cobra.Group{ID: "author", Title: "Write transformations:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("server", a.serveCommand(), a.devCommand())
	add("client", a.moduleCommand(), a.streamCommand(), a.applyCommand(), a.exportCommand(), a.queryCommand(), a.eventsCommand(), a.produceCommand())
	add("author", a.newCommand(), a.runCommand())
	root.AddCommand(a.doctorCommand(), a.versionCommand(), a.compileCommand(), exitStatusTopic())
	root.SetUsageTemplate(wrappedUsage(root.UsageTemplate(), a.helpWidth()))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	complete(root)
	return root
}

// Columns of the help. Beyond the larger one lines are hard to read.
const (
	minHelpWidth = 80
	maxHelpWidth = 100
)

// helpWidth is how wide the help may be.
func (a *app) helpWidth() int {
	if f := a.terminal(); f != nil {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return min(max(width, minHelpWidth), maxHelpWidth)
		}
	}
	return maxHelpWidth
}

// wrappedUsage makes cobra's template of a command's usage break the lines of
// flags, which it leaves as long as they are.
func wrappedUsage(template string, width int) string {
	return strings.ReplaceAll(template, ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", width))
}

// exitStatusTopic is a page of the help: cobra lists a command that does nothing
// as a further topic.
func exitStatusTopic() *cobra.Command {
	return &cobra.Command{
		Use:     "exit-status",
		Aliases: []string{"exit-codes"},
		Short:   "What the exit status says",
		Long: `0  done, and all went well
1  failed: what was asked for could not be done, or not all of it, or it found
   something that has failed. A message that fails in run or stream check, a
   stream that has failed when it is started, a difference from the --golden file
   and a fail of doctor are such
2  wrong usage: flags, arguments, variables or graphmill.yaml; nothing was done

What is asked for stands on standard output, also with status 1; errors and
warnings on standard error. Scripts may rely on both.`,
	}
}

// complete gives every command what cobra leaves to chance: a group without a
// subcommand shows its help, and an unknown subcommand names the nearest one.
func complete(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
	if cmd.HasSubCommands() && cmd.Run == nil && cmd.RunE == nil {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		}
	}
}

// takes makes a command take exactly these arguments.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		what := "no argument"
		if len(names) > 0 {
			what = strings.Join(names, " and ")
		}
		given := "none is given"
		if len(args) > 0 {
			given = fmt.Sprintf("%q is given", args)
		}
		return wrongUsage("%s takes %s; %s", cmd.CommandPath(), what, given)
	}
}

// takesOptional makes a command take one argument, and another if need be.
func takesOptional(required, optional string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 || len(args) == 2 {
			return nil
		}
		return wrongUsage("%s takes %s and, if need be, %s; %d arguments are given", cmd.CommandPath(), required, optional, len(args))
	}
}

func unknownCommand(cmd *cobra.Command, given string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(append(names, c.Name()), c.Aliases...)
	}
	text := fmt.Sprintf("%s has no command %q", cmd.CommandPath(), given)
	if near := graphmill.Nearest(given, names); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return &usageError{text: text}
}

// flagError makes errors of flags wrong usage, and names the nearest flag.
func flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		text = fmt.Sprintf("%s has no flag --%s", cmd.CommandPath(), unknown.GetSpecifiedName())
		if near := graphmill.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			text += fmt.Sprintf("; did you mean --%s?", near)
		}
	}
	return &usageError{text: text}
}

// oneOf is the value of a flag that takes one of a few words.
type oneOf struct {
	value *string
	words []string
}

func newOneOf(value *string, words ...string) *oneOf {
	*value = words[0]
	return &oneOf{value: value, words: words}
}

// String returns the word.
func (o *oneOf) String() string { return *o.value }

// Type is shown by the help.
func (o *oneOf) Type() string { return strings.Join(o.words, "|") }

// Set checks the word.
func (o *oneOf) Set(s string) error {
	if !slices.Contains(o.words, s) {
		return fmt.Errorf("it is one of %s", strings.Join(o.words, ", "))
	}
	*o.value = s
	return nil
}
