package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
)

// verified is the answer of module verify.
type verified struct {
	File            string   `json:"file"`
	SHA256          string   `json:"sha256"`
	Size            int64    `json:"size"` // bytes
	Transformations []string `json:"transformations"`
	Checked         []string `json:"checked"` // a sentence each
}

func (a *app) moduleVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check a module as push would; no server is needed",
		Long: `Checks FILE as a server does when it is pushed, and prints what was checked and the
transformations found; "-" is standard input. The exit status is 0 where it can be
pushed, 1 where it cannot.

The limits are those of a server with default settings; --limit-... sets them as
'graphmill serve' does. Its machine code is kept in the user's cache folder.`,
		Example: `  graphmill module verify plugin.wasm && echo fit to be pushed`,
		Args:    takes("FILE"),
	}
	var limits limitSettings
	limits.add(cmd.Flags())
	out := a.outputFlag(cmd)
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error { return nil } // no settings of a server are needed
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := a.verify(cmd, args[0], limits.limits())
		if err != nil {
			return err
		}
		return out.print(v, func(w io.Writer) error {
			fmt.Fprintf(w, "%s can be pushed (%s, sha256 %.12s)\n", v.File, sizeText(v.Size), v.SHA256)
			printTransformations(w, "NAME", v.Transformations)
			printChecked(w, v.Checked)
			return nil
		})
	}
	return cmd
}

func (a *app) verify(cmd *cobra.Command, file string, limits wasmhost.Limits) (verified, error) {
	progress := a.startProgress("reading " + file)
	defer progress.stop()
	source, size, err := a.openModule(cmd.Context(), file)
	if err != nil {
		return verified{}, err
	}
	defer func() { _ = source.Close() }()
	if size > limits.ModuleBytes {
		return verified{}, &graphmill.Error{
			Kind: graphmill.KindTooLarge, Code: "over_limit",
			Text: fmt.Sprintf("%s has %d bytes, the limit is %d", file, size, limits.ModuleBytes),
			Next: "make it smaller, or raise --limit-module-bytes, here and of the server",
		}
	}
	bytes, err := io.ReadAll(source)
	if err != nil {
		return verified{}, cannotRead(file, err)
	}
	progress.say(func() string { return fmt.Sprintf("compiling %s (%s)", file, sizeText(size)) })
	var report *wasmhost.Report
	err = a.withHost(cmd.Context(), limits, func(host *wasmhost.Host) error {
		report, err = host.Check(cmd.Context(), bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		return nil
	})
	if err != nil {
		return verified{}, err
	}
	return verified{File: file, SHA256: report.SHA256, Size: report.Size, Transformations: report.Transformations, Checked: report.Checked}, nil
}
