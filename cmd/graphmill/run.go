package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
	"github.com/graphmill/graphmill/wasmhost"
)

func (a *app) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run MODULE_OR_FILE[.FUNCTION] --messages FILE",
		Short: "Try a transformation on messages; no broker, no database",
		Long: `Passes messages through a transformation, all in one call, and shows the
statements. Given a file, or a module that lies beside this program, no server is
needed; any other name is a module of the server. A file is compiled once: the
machine code is kept in the user's cache folder.

FILE holds one message a line, as JSON: payload (text) or payload_base64, and if
need be key or key_base64, topic, partition, offset, timestamp, headers. "-" is
standard input.

With --golden the statements and failures are compared with those of a file, and
a difference is a failure: a test for plugins. --update writes the file. Without
--golden a message that fails is one: the exit status is 1.`,
		Example: `  echo '{"payload": "{\"userId\": 7, \"movieId\": 1, \"rating\": 5}"}' > ratings.jsonl
  graphmill run bin/plugins/movies.wasm --messages ratings.jsonl

  echo '{"payload": "{\"userId\": 7}"}' > clicks.jsonl
  graphmill run cypher.event --messages clicks.jsonl \
      --setting query='MERGE (u:User {id: $event.userId})'

  graphmill run plugin.wasm --messages in.jsonl --golden want.json`,
		Args: takes("MODULE_OR_FILE"),
	}
	c := a.newClient(cmd.Flags())
	fs := cmd.Flags()
	file := fs.String("messages", "", "file of messages, one JSON a line; - is standard input")
	golden := fs.String("golden", "", "file with the statements to expect")
	update := fs.Bool("update", false, "write the --golden file instead of comparing")
	var ready string
	addPluginsDir(fs, &ready)
	var settings settingFlags
	settings.add(fs)
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *file == "":
			return wrongUsage("--messages FILE is needed")
		case *update && *golden == "":
			return wrongUsage("--update needs --golden FILE")
		}
		target, err := findTransformation(args[0], pluginsDir(ready))
		if err != nil {
			return err
		}
		if target.file == "" {
			if err := a.loadClientSettings(cmd); err != nil {
				return err
			}
		}
		req := api.RunRequest{}
		if req.Settings, err = settings.read(); err != nil {
			return err
		}
		if req.Messages, err = a.readMessages(cmd.Context(), *file); err != nil {
			return err
		}
		res, err := a.try(cmd.Context(), c, target, req)
		if err != nil {
			return err
		}
		if *golden != "" {
			return a.compareGolden(*golden, *update, res)
		}
		if err := out.print(res, func(w io.Writer) error {
			printRun(w, req.Messages, res)
			return nil
		}); err != nil {
			return err
		}
		return messagesFailed(len(req.Messages), res.Failures)
	}
	return cmd
}

// target is a transformation to try: of a file, or of the server's module.
type target struct {
	file string // empty: the server's
	ref  graphmill.TransformationRef
}

// findTransformation reads MODULE_OR_FILE[.FUNCTION]. A file goes before a
// ready module, and that before a module of the server.
func findTransformation(arg, pluginsDir string) (target, error) {
	if isFile(arg) {
		return target{file: arg, ref: graphmill.TransformationRef{Function: graphmill.DefaultFunction}}, nil
	}
	if i := strings.LastIndexByte(arg, '.'); i > 0 && isFile(arg[:i]) {
		return target{file: arg[:i], ref: graphmill.TransformationRef{Function: arg[i+1:]}}, nil
	}
	if strings.ContainsRune(arg, filepath.Separator) || strings.HasSuffix(arg, ".wasm") {
		return target{}, fmt.Errorf("there is no file %s", arg)
	}
	ref, err := graphmill.ParseTransformationRef(arg)
	if err != nil {
		return target{}, wrongUsage("%q is neither a file nor MODULE.FUNCTION", arg)
	}
	if ready := filepath.Join(pluginsDir, ref.Module+".wasm"); pluginsDir != "" && isFile(ready) {
		return target{file: ready, ref: ref}, nil
	}
	return target{ref: ref}, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func addPluginsDir(fs *pflag.FlagSet, dir *string) {
	fs.StringVar(dir, "plugins-dir", "", "where ready modules lie (default the folder plugins beside this program)")
}

// pluginsDir returns the folder that the flag names, or its default.
func pluginsDir(flag string) string {
	if flag != "" {
		return flag
	}
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	return filepath.Join(filepath.Dir(exe), "plugins")
}

// readMessages reads JSON lines; empty lines are passed over.
func (a *app) readMessages(ctx context.Context, file string) ([]api.Message, error) {
	var doc []byte
	var err error
	if file == "-" {
		doc, err = io.ReadAll(a.input(ctx))
		file = "standard input"
	} else {
		doc, err = readFile(file)
	}
	if err != nil {
		return nil, err
	}
	var messages []api.Message
	decode := api.MessageDecoder()
	number := 0
	for text := range bytes.Lines(doc) {
		number++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		m, err := decode(text)
		if err != nil {
			return nil, &graphmill.Error{
				Kind: graphmill.KindInvalid, Code: "message",
				Text: fmt.Sprintf("%s, line %d is no message", file, number),
				Next: `a message is one line such as {"payload": "text", "key": "k", "topic": "t"}`,
				Err:  err,
			}
		}
		messages = append(messages, m)
	}
	if len(messages) == 0 {
		return nil, graphmill.Invalid("", "%s holds no message", file)
	}
	return messages, nil
}

// try calls the transformation here, or asks the server to.
func (a *app) try(ctx context.Context, c *client, t target, req api.RunRequest) (api.RunResult, error) {
	if t.file == "" {
		var res api.RunResult
		err := c.call(ctx, http.MethodPost, apiPath("modules", t.ref.Module, "transformations", t.ref.Function)+":run", req, &res)
		return res, err
	}
	messages := make([]graphmill.Message, len(req.Messages))
	for i := range req.Messages {
		var err error
		if messages[i], err = req.Messages[i].Message(i); err != nil {
			return api.RunResult{}, fmt.Errorf("message %d: %w", i, err)
		}
	}
	bytes, err := readFile(t.file)
	if err != nil {
		return api.RunResult{}, err
	}
	var res server.RunResult
	err = a.withHost(ctx, wasmhost.Limits{}, func(host *wasmhost.Host) error {
		module, err := host.Load(ctx, bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", t.file, err)
		}
		res, err = server.Run(ctx, module, server.RunRequest{
			Module: t.ref.Module, Function: t.ref.Function, Messages: messages, Settings: req.Settings,
		})
		return errors.Join(err, module.Close(context.WithoutCancel(ctx)))
	})
	if err != nil {
		return api.RunResult{}, err
	}
	return api.NewRunResult(messages, res)
}

func printRun(w io.Writer, messages []api.Message, res api.RunResult) {
	fmt.Fprintf(w, "%s, %s; %.1f ms, %s of memory\n",
		count(len(messages), "message", "messages"), outcome(len(res.Statements), len(res.Failures)), res.DurationMS, sizeText(res.MemoryBytes))
	for _, l := range res.Log {
		fmt.Fprintf(w, "log %s: %s\n", l.Level, l.Text)
	}
	printOutcome(w, messages, res.Statements, res.Failures)
}

// compareGolden compares what came out with the golden file.
func (a *app) compareGolden(file string, update bool, res api.RunResult) error {
	got, err := goldenText(res)
	if err != nil {
		return err
	}
	if update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			return fmt.Errorf("write the golden file: %w", err)
		}
		fmt.Fprintf(a.out, "wrote %s: %s\n", file, outcome(len(res.Statements), len(res.Failures)))
		return nil
	}
	want, err := readFile(file)
	if err != nil {
		return &graphmill.Error{Kind: graphmill.KindNotFound, Code: "golden", Text: err.Error(), Next: "write it with --update, and read it before you keep it"}
	}
	if bytes.Equal(want, got) {
		fmt.Fprintf(a.out, "as expected: %s\n", outcome(len(res.Statements), len(res.Failures)))
		return nil
	}
	fmt.Fprintf(a.err, "error: the statements differ from %s (- expected, + got)\n", file)
	printDifference(plainText{a.err}, lines(want), lines(got))
	fmt.Fprintln(a.err, "next:  if the new ones are right, add --update")
	return &silentError{}
}

// goldenText is what a golden file holds: what does not change from run to run.
func goldenText(res api.RunResult) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(struct {
		Statements []api.Statement `json:"statements"`
		Failures   []api.Failure   `json:"failures"`
	}{res.Statements, res.Failures})
	return b.Bytes(), err
}

func lines(text []byte) []string {
	var out []string
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, len(text)+1)
	for s.Scan() {
		out = append(out, s.Text())
	}
	return out
}
