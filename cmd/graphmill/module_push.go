package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
)

func (a *app) modulePushCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "push NAME FILE",
		Short: "Upload a module, or a new version of it",
		Long: `Uploads FILE as the module NAME; "-" is standard input. The server checks all of
it before it keeps anything: size, counts, imports, exports and their types, and
that it can be instantiated. Running streams take the new version behind the batch
that they are executing. The same bytes again make no new version.

It is refused where a stream, running or not, uses a function that FILE does not
export. With --no-activate it is stored all the same, and streams stay with the
version that they have, until 'graphmill module rollback NAME VERSION'.`,
		Example: `  graphmill module push movies bin/plugins/movies.wasm
  graphmill stream create ratings --topics ratings --transform movies.transform`,
		Args: takes("NAME", "FILE"),
	}
	noActivate := cmd.Flags().Bool("no-activate", false, "keep the version that streams use now")
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pushed, err := a.push(cmd, c, args[0], args[1], *noActivate)
		if err != nil {
			return err
		}
		return out.print(pushed, func(w io.Writer) error {
			printPushed(w, &pushed)
			if pushed.Active {
				c.tellFailedStreams(cmd.Context(), w, pushed.Name)
			}
			return nil
		})
	}
	return cmd
}

// push uploads a file and tells meanwhile how far it is.
func (a *app) push(cmd *cobra.Command, c *client, name, file string, noActivate bool) (api.PushedModule, error) {
	var pushed api.PushedModule
	progress := a.startProgress("reading " + file)
	defer progress.stop()
	source, size, err := a.openModule(cmd.Context(), file)
	if err != nil {
		return pushed, err
	}
	defer func() { _ = source.Close() }()
	path := apiPath("modules", name)
	if noActivate {
		path += "?activate=false"
	}
	body := &countedReader{r: source}
	progress.say(func() string {
		if n := body.n.Load(); n < size {
			return fmt.Sprintf("uploading %s: %s of %s", file, sizeText(n), sizeText(size))
		}
		return fmt.Sprintf("uploaded %s (%s); the server checks and compiles it", file, sizeText(size))
	})
	err = c.stream(cmd.Context(), http.MethodPut, path, server.ContentTypeWasm, body, size, &pushed)
	return pushed, err
}

func printPushed(w io.Writer, pushed *api.PushedModule) {
	if pushed.Created {
		fmt.Fprintf(w, "pushed %s version %d (%s, sha256 %.12s)\n", pushed.Name, pushed.Version, sizeText(pushed.Size), pushed.SHA256)
	} else {
		fmt.Fprintf(w, "%s version %d has these bytes already; no new version\n", pushed.Name, pushed.Version)
	}
	printTransformations(w, pushed.Name, pushed.Transformations)
	printChecked(w, pushed.Checked)
	if !pushed.Active {
		fmt.Fprintf(w, "not active: streams stay with the version that they use now\n"+
			"to make it active: graphmill module rollback %s %d\n", pushed.Name, pushed.Version)
	}
}
