package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionLimit bounds what a shell waits for when TAB is pressed. A server
// that is away or silent is told nothing of: the line that is being typed would
// be torn.
const completionLimit = time.Second

// lister asks the server for names.
type lister func(ctx context.Context, c *client) ([]string, error)

func streamNames(ctx context.Context, c *client) ([]string, error) {
	streams, err := c.streams(ctx)
	var names []string
	for _, s := range streams {
		names = append(names, s.Name)
	}
	return names, err
}

func moduleNames(ctx context.Context, c *client) ([]string, error) {
	modules, err := c.modules(ctx)
	var names []string
	for _, m := range modules {
		names = append(names, m.Name)
	}
	return names, err
}

// transformationNames are MODULE.FUNCTION.
func transformationNames(ctx context.Context, c *client) ([]string, error) {
	modules, err := c.modules(ctx)
	var names []string
	for _, m := range modules {
		for _, t := range m.Transformations {
			names = append(names, m.Name+"."+t)
		}
	}
	return names, err
}

// completes makes a shell offer names for the first most arguments, each once.
// What comes behind them is left to otherwise.
func (a *app) completes(cmd *cobra.Command, c *client, list lister, most int, otherwise cobra.ShellCompDirective) *cobra.Command {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, otherwise
		}
		return a.offer(cmd, c, list, args, begun), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// completesFlag does so for the value of a flag.
func (a *app) completesFlag(cmd *cobra.Command, c *client, flag string, list lister) {
	// The only error is of a flag that does not exist or is registered twice.
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return a.offer(cmd, c, list, nil, begun), cobra.ShellCompDirectiveNoFileComp
	})
}

// offer returns the names that begin as what has been typed, without those that
// stand on the line already.
func (a *app) offer(cmd *cobra.Command, c *client, list lister, given []string, begun string) []string {
	quiet := *a
	quiet.err = io.Discard
	if quiet.loadClientSettings(cmd) != nil {
		return nil
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionLimit)
	defer cancel()
	names, err := list(ctx, c)
	if err != nil {
		return nil
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, begun) || slices.Contains(given, name)
	})
	slices.Sort(names)
	return names
}
