package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
)

func (a *app) moduleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "module",
		Aliases: []string{"modules"},
		Short:   "Transformations: push, list, show, verify, roll back, remove",
		Long: `A module is a file of WebAssembly with one or more transformations. Pushing it
under a name makes a version of it, which is the active one from then on: streams
use it from their next batch. Rolling back makes another version the active one.`,
	}
	c := a.clientFlag(cmd)
	one := func(cmd *cobra.Command, behind cobra.ShellCompDirective) *cobra.Command {
		return a.completes(cmd, c, moduleNames, 1, behind)
	}
	cmd.AddCommand(
		one(a.modulePushCommand(c), cobra.ShellCompDirectiveDefault), // a file
		a.moduleListCommand(c),
		one(a.moduleShowCommand(c), cobra.ShellCompDirectiveNoFileComp),
		a.moduleVerifyCommand(),
		one(a.moduleRollbackCommand(c), cobra.ShellCompDirectiveNoFileComp),
		one(a.moduleRemoveCommand(c), cobra.ShellCompDirectiveNoFileComp),
	)
	return cmd
}

func (a *app) moduleListCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List modules",
		Args:    takes(),
	}
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		modules, err := c.modules(cmd.Context())
		if err != nil {
			return err
		}
		return out.print(modules, func(w io.Writer) error {
			if len(modules) == 0 {
				fmt.Fprintln(w, "no modules; push one: graphmill module push NAME FILE")
				return nil
			}
			t := newTable(w, "name", "version", "size", "pushed", "transformations")
			for _, m := range modules {
				version := fmt.Sprint(m.Version)
				if m.ReadOnly {
					version = "ready"
				}
				t.AppendRow([]any{m.Name, version, sizeText(m.Size), timeText(m.CreatedAt), strings.Join(m.Transformations, ", ")})
			}
			t.Render()
			return nil
		})
	}
	return cmd
}

func (a *app) moduleShowCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a module: its versions, and the streams that use it",
		Args:  takes("NAME"),
	}
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var m api.ModuleVersions
		if err := c.call(cmd.Context(), http.MethodGet, apiPath("modules", args[0]), nil, &m); err != nil {
			return err
		}
		return out.print(m, func(w io.Writer) error {
			t := newTable(w, "version", "active", "size", "sha256", "pushed", "transformations")
			for _, v := range m.Versions {
				active := ""
				if v.Active {
					active = "active"
				}
				t.AppendRow([]any{v.Version, active, sizeText(v.Size), v.SHA256[:min(12, len(v.SHA256))], timeText(v.CreatedAt), strings.Join(v.Transformations, ", ")})
			}
			t.Render()
			printUses(w, m.Streams)
			return nil
		})
	}
	return cmd
}

func printUses(w io.Writer, uses []server.ModuleUse) {
	fmt.Fprintln(w)
	if len(uses) == 0 {
		fmt.Fprintln(w, "no stream uses it")
		return
	}
	t := newTable(w, "stream", "uses", "state", "version")
	for _, u := range uses {
		version := "" // it does not run
		if u.Version > 0 {
			version = fmt.Sprint(u.Version)
		}
		t.AppendRow([]any{u.Stream, u.Function, u.State, version})
	}
	t.Render()
}

func (a *app) moduleRollbackCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rollback NAME [VERSION]",
		Aliases: []string{"activate"},
		Short:   "Make another version of a module the active one",
		Long: `Makes VERSION the version that streams use: an earlier one, or a later one such as
one that was pushed with --no-activate. Without VERSION it is the one that was active before the
active one. Running streams take it behind the batch that they are executing.

It is refused where a stream, running or not, uses a function that the version
does not export.`,
		Example: `  graphmill module rollback movies
  graphmill module rollback movies 3`,
		Args: takesOptional("NAME", "VERSION"),
	}
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var body api.Rollback
		if len(args) == 2 {
			version, err := parseVersion("VERSION", args[1])
			if err != nil {
				return err
			}
			body.Version = version
		}
		var m graphmill.Module
		if err := c.call(cmd.Context(), http.MethodPost, apiPath("modules", args[0])+":rollback", body, &m); err != nil {
			return err
		}
		return out.print(m, func(w io.Writer) error {
			fmt.Fprintf(w, "%s version %d is active; running streams take it at their next batch\n", m.Name, m.Version)
			c.tellFailedStreams(cmd.Context(), w, m.Name)
			return nil
		})
	}
	return cmd
}

// tellFailedStreams says what to do for the streams that a new version may have
// cured: they do not start by themselves. The command is done already, so that
// nothing is said where that cannot be found out.
func (c *client) tellFailedStreams(ctx context.Context, w io.Writer, module string) {
	var m api.ModuleVersions
	if err := c.call(ctx, http.MethodGet, apiPath("modules", module), nil, &m); err != nil {
		return
	}
	for _, u := range m.Streams {
		if u.State == graphmill.StateFailed {
			fmt.Fprintf(w, "stream %s has failed and takes this version when it is started: graphmill stream start %s\n", u.Stream, u.Stream)
		}
	}
}

// parseVersion reads the number of a version.
func parseVersion(what, s string) (int, error) {
	version, err := strconv.Atoi(s)
	if err != nil || version < 1 {
		return 0, wrongUsage("%s %q is no version; 'graphmill module show NAME' lists them", what, clip(s, 40))
	}
	return version, nil
}

func (a *app) moduleRemoveCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm NAME [--version N]",
		Aliases: []string{"remove", "delete"},
		Short:   "Remove a module that no stream uses, or one version of it",
		Long: `Removes a module with all its versions; no stream may use it, running or not.
With --version only that one goes, which must not be the active one. Its number is
not given again.

A ready module of the same name, which lies beside the program, serves again then.`,
		Args: takes("NAME"),
	}
	var version string
	cmd.Flags().StringVar(&version, "version", "", "remove this version only")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		path, removed := apiPath("modules", name), name
		if cmd.Flags().Changed("version") {
			n, err := parseVersion("--version", version)
			if err != nil {
				return err
			}
			path = apiPath("modules", name, "versions", strconv.Itoa(n))
			removed = fmt.Sprintf("%s version %d", name, n)
		}
		if err := c.call(cmd.Context(), http.MethodDelete, path, nil, nil); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "removed %s\n", removed)
		return a.tellReadyModule(cmd, c, name)
	}
	return cmd
}

// tellReadyModule says where the name of a removed module is still served.
func (a *app) tellReadyModule(cmd *cobra.Command, c *client, name string) error {
	var left api.ModuleVersions
	err := c.call(cmd.Context(), http.MethodGet, apiPath("modules", name), nil, &left)
	switch p := asProblem(err); {
	case p != nil && p.Status == http.StatusNotFound:
		return nil
	case err != nil:
		return fmt.Errorf("it is removed, but what is left of the name is not known: %w", err)
	case left.ReadOnly:
		fmt.Fprintf(a.out, "the ready module %s, which lies beside the program, serves this name now\n", name)
	}
	return nil
}

func printTransformations(w io.Writer, module string, names []string) {
	if len(names) == 1 {
		fmt.Fprintf(w, "transformation: %s.%s\n", module, names[0])
		return
	}
	fmt.Fprintf(w, "%d transformations:\n", len(names))
	for _, n := range names {
		fmt.Fprintf(w, "  %s.%s\n", module, n)
	}
}

func printChecked(w io.Writer, checked []string) {
	if len(checked) == 0 {
		return
	}
	fmt.Fprintln(w, "checked:")
	for _, c := range checked {
		fmt.Fprintf(w, "  %s\n", c)
	}
}

// readFile reads a file that the command line names.
func readFile(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, errors.Unwrap(err))
	}
	return b, nil
}

// sizeText writes bytes for people.
func sizeText(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// timeText writes a moment in the zone of whoever reads it.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}
