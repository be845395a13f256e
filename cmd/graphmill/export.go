package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
)

func (a *app) exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export [STREAM...]",
		Short: "Write streams and modules as 'apply' takes them",
		Long: `Writes the definitions of the named streams, or of all, in the form that apply takes,
and the modules that they use, or all that were pushed, with the SHA-256 of the active
version. Only what differs from the defaults is written.

No secret is exported: in its place stands ` + graphmill.RedactedValue + `, which apply refuses until the value
is given again, or secret:NAME. References of this form are exported as they are.

With --modules the files of the modules are written to DIR, too. Put the definitions
beside them, and apply -f DIR makes the same on another server.`,
		Example: `  graphmill export > streams.yaml
  graphmill export ratings -o json
  mkdir deploy; graphmill export --modules deploy > deploy/streams.yaml`,
	}
	c := a.clientFlag(cmd)
	a.completes(cmd, c, streamNames, math.MaxInt, cobra.ShellCompDirectiveNoFileComp)
	var format, folder string
	cmd.Flags().VarP(newOneOf(&format, "yaml", "json"), "output", "o", "how to write")
	cmd.Flags().StringVar(&folder, "modules", "", "write the files of the modules to this folder, too")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		return a.export(cmd.Context(), c, names, folder, format)
	}
	return cmd
}

func (a *app) export(ctx context.Context, c *client, names []string, folder, format string) error {
	streams, broken, err := c.streamsToExport(ctx, names)
	if err != nil {
		return err
	}
	modules, err := c.modulesToExport(ctx, streams, len(names) > 0)
	if err != nil {
		return err
	}
	e := exported{Streams: []exportedStream{}}
	for _, s := range streams {
		e.Streams = append(e.Streams, exportStream(s))
	}
	for _, m := range modules {
		x := exportedModule{Name: m.Name, SHA256: m.SHA256, Version: m.Version}
		if folder != "" {
			progress := a.startProgress("downloading module " + m.Name)
			x.File = m.Name + wasmSuffix
			err := c.saveModule(ctx, m, folder, x.File)
			progress.stop()
			if err != nil {
				return err
			}
		}
		e.Modules = append(e.Modules, x)
	}
	if err := e.write(a.out, format); err != nil {
		return err
	}
	e.tellSecrets(plainText{a.err})
	for _, s := range broken {
		a.tell(&graphmill.Error{Kind: graphmill.KindConflict, Text: fmt.Sprintf("stream %s is not exported: %s", s.Name, s.Reason.Text), Next: s.Reason.NextStep})
	}
	if len(broken) > 0 {
		return &silentError{}
	}
	return nil
}

// streamsToExport returns the named streams, or all; those apart whose definition
// the server cannot read.
func (c *client) streamsToExport(ctx context.Context, names []string) (streams, broken []api.Stream, err error) {
	all, err := c.streams(ctx)
	if err != nil {
		return nil, nil, err
	}
	known := make([]string, len(all))
	for i, s := range all {
		known[i] = s.Name
		switch {
		case len(names) > 0 && !slices.Contains(names, s.Name):
		case s.State == graphmill.StateBroken:
			broken = append(broken, s)
		default:
			streams = append(streams, s)
		}
	}
	for _, name := range names {
		if slices.Contains(known, name) {
			continue
		}
		e := graphmill.NotFound("stream_not_found", "there is no stream %q", clip(name, 60))
		e.Next = "graphmill stream list shows what there is"
		if near := graphmill.Nearest(name, known); near != "" {
			e.Next = fmt.Sprintf("did you mean %q? %s", near, e.Next)
		}
		return nil, nil, e
	}
	return streams, broken, nil
}

// modulesToExport returns the active versions of the modules that were pushed; with
// used, only of those that the streams use.
func (c *client) modulesToExport(ctx context.Context, streams []api.Stream, used bool) ([]graphmill.Module, error) {
	all, err := c.modules(ctx)
	if err != nil {
		return nil, err
	}
	use := map[string]bool{}
	for _, s := range streams {
		if ref, err := graphmill.ParseTransformationRef(s.Transform); err == nil {
			use[ref.Module] = true
		}
	}
	return slices.DeleteFunc(all, func(m graphmill.Module) bool { return m.ReadOnly || used && !use[m.Name] }), nil
}

// saveModule downloads a module into a folder. The file is there whole or not at
// all.
func (c *client) saveModule(ctx context.Context, m graphmill.Module, folder, name string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the folder for modules: %w", err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("open the folder for modules: %w", err)
	}
	defer func() { _ = root.Close() }()
	resp, err := c.open(ctx, apiPath("modules", m.Name, "versions", fmt.Sprint(m.Version), "content"), server.ContentTypeWasm, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	partial := "." + name + ".partial"
	if err := saveChecked(root, partial, resp.Body, m.SHA256); err != nil {
		_ = root.Remove(partial)
		return fmt.Errorf("save module %s: %w", m.Name, err)
	}
	return root.Rename(partial, name)
}

func saveChecked(root *os.Root, name string, content io.Reader, sha256 string) error {
	file, err := root.Create(name)
	if err != nil {
		return err
	}
	sum, _, err := sumOf(io.TeeReader(content, file))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil && !strings.EqualFold(sum, sha256) {
		err = fmt.Errorf("what came has the SHA-256 %.12s, not %.12s", sum, sha256)
	}
	return err
}
