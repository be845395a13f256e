package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
	"github.com/graphmill/graphmill/wasmhost"
)

func (a *app) moduleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "module",
		Aliases: []string{"modules"},
		Short:   "Transformations: push, list, show, verify, remove",
		Long: `A module is a file of WebAssembly with one or more transformations. Pushing it
under a name makes a version of it; streams use the newest one.`,
	}
	c := a.clientFlag(cmd)
	cmd.AddCommand(
		a.modulePushCommand(c),
		a.moduleListCommand(c),
		a.moduleShowCommand(c),
		a.moduleVerifyCommand(),
		a.moduleRemoveCommand(c),
	)
	return cmd
}

func (a *app) modulePushCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "push NAME FILE",
		Short: "Upload a module, or a new version of it",
		Long: `Uploads FILE as the module NAME. The server checks all of it before it keeps
anything: size, counts, imports, exports and their types, and that it can be
instantiated. Running streams take the new version at their next batch. The same
bytes again change nothing.`,
		Example: `  graphmill module push movies bin/plugins/movies.wasm
  graphmill stream create ratings --topics ratings --transform movies.transform`,
		Args: takes("NAME", "FILE"),
	}
	noActivate := cmd.Flags().Bool("no-activate", false, "keep the version that streams use now")
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, file := args[0], args[1]
		bytes, err := readFile(file)
		if err != nil {
			return err
		}
		if len(bytes) == 0 {
			return graphmill.Invalid("", "%s is empty", file)
		}
		path := apiPath("modules", name)
		if *noActivate {
			path += "?activate=false"
		}
		var pushed api.PushedModule
		if err := c.send(cmd.Context(), http.MethodPut, path, server.ContentTypeWasm, bytes, &pushed); err != nil {
			return err
		}
		return out.print(pushed, func(w io.Writer) error {
			if pushed.Created {
				fmt.Fprintf(w, "pushed %s version %d (%s, sha256 %.12s)\n", pushed.Name, pushed.Version, sizeText(pushed.Size), pushed.SHA256)
			} else {
				fmt.Fprintf(w, "%s version %d has these bytes already; nothing has changed\n", pushed.Name, pushed.Version)
			}
			printTransformations(w, pushed.Name, pushed.Transformations)
			printChecked(w, pushed.Checked)
			if !pushed.Active {
				fmt.Fprintln(w, "not active: streams stay with the version that they use now")
			}
			return nil
		})
	}
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
		var modules api.Modules
		if err := c.call(cmd.Context(), http.MethodGet, apiPath("modules"), nil, &modules); err != nil {
			return err
		}
		return out.print(modules.Modules, func(w io.Writer) error {
			if len(modules.Modules) == 0 {
				fmt.Fprintln(w, "no modules; push one: graphmill module push NAME FILE")
				return nil
			}
			t := newTable(w, "name", "version", "size", "created", "transformations")
			for _, m := range modules.Modules {
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
		Short: "Show a module and its versions",
		Args:  takes("NAME"),
	}
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var m api.ModuleVersions
		if err := c.call(cmd.Context(), http.MethodGet, apiPath("modules", args[0]), nil, &m); err != nil {
			return err
		}
		return out.print(m, func(w io.Writer) error {
			t := newTable(w, "version", "active", "size", "sha256", "created", "transformations")
			for _, v := range m.Versions {
				active := ""
				if v.Active {
					active = "active"
				}
				t.AppendRow([]any{v.Version, active, sizeText(v.Size), v.SHA256[:min(12, len(v.SHA256))], timeText(v.CreatedAt), strings.Join(v.Transformations, ", ")})
			}
			t.Render()
			return nil
		})
	}
	return cmd
}

func (a *app) moduleVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "verify FILE",
		Short:   "Check a module as push would; no server is needed",
		Example: `  graphmill module verify plugin.wasm && echo fit to be pushed`,
		Args:    takes("FILE"),
	}
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		bytes, err := readFile(args[0])
		if err != nil {
			return err
		}
		return a.withHost(cmd.Context(), func(host *wasmhost.Host) error {
			report, err := host.Check(cmd.Context(), bytes)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			answer := struct {
				Transformations []string `json:"transformations"`
				Checked         []string `json:"checked"`
			}{report.Transformations, report.Checked}
			return out.print(answer, func(w io.Writer) error {
				fmt.Fprintf(w, "%s can be pushed\n", args[0])
				printTransformations(w, "NAME", report.Transformations)
				printChecked(w, report.Checked)
				return nil
			})
		})
	}
	return cmd
}

func (a *app) moduleRemoveCommand(c *client) *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME",
		Aliases: []string{"remove", "delete"},
		Short:   "Remove a module that no stream uses, with all its versions",
		Args:    takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.call(cmd.Context(), http.MethodDelete, apiPath("modules", args[0]), nil, nil); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "removed %s\n", args[0])
			return nil
		},
	}
}

func printTransformations(w io.Writer, module string, names []string) {
	fmt.Fprintln(w, "transformations:")
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
