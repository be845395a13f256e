package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
)

func (a *app) streamEditCommand(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edit NAME",
		Short: "Change a stream's definition, running or not",
		Long: `Changes the options that are given; all others stay, secrets among them. --setting,
--config and --credential change one entry each. A running stream finishes the
batch that is being executed and goes on from there under the new definition. It
may be waiting, or trying a batch again and again: this is how to help it.

Topics, a consumer group or subscription, or brokers that are new need --from:
where reading begins there.`,
		Example: `  graphmill stream edit ratings --batch-size 500 --batch-interval 1s
  graphmill stream edit clicks --setting query='MERGE (u:User {id: $event.user})'
  graphmill stream edit ratings --topics ratings,reviews --from earliest
  graphmill stream edit clicks --unset topics --topics-pattern 'clicks-.*' --from latest
  graphmill stream edit ratings --unset batch-size --unset setting.query`,
		Args: takes("NAME"),
	}
	f := createFlags{edit: true}
	f.add(cmd)
	unset := cmd.Flags().StringArray("unset", nil, "give an option its default, as batch-size, or remove an entry, as setting.NAME, config.NAME or credential.NAME; may be repeated")
	from := cmd.Flags().String("from", "", "where reading begins in what is new: earliest, latest, a time in RFC 3339, or committed (where the group or subscription is, else --start-from)")
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		patch, err := f.patch(cmd.Flags(), *unset)
		if err != nil {
			return err
		}
		if len(patch) == 0 {
			return wrongUsage("nothing to change is given, such as --batch-size 500")
		}
		if cmd.Flags().Changed("from") {
			patch["from"] = *from
		}
		if f.noCheck {
			patch["check"] = false
		}
		var before api.Stream
		if err := c.call(cmd.Context(), http.MethodGet, apiPath("streams", args[0]), nil, &before); err != nil {
			return err
		}
		var after api.ChangedDefinition
		progress := a.startProgress("changing " + args[0] + ": the batch that is being executed is finished")
		err = c.call(cmd.Context(), http.MethodPatch, apiPath("streams", args[0]), patch, &after)
		progress.stop()
		if err != nil {
			return err
		}
		for _, w := range after.Warnings {
			fmt.Fprintf(a.err, "warning: %s\n", w)
		}
		return out.print(after, func(w io.Writer) error {
			return printChanges(w, &before.StreamDefinition, &after)
		})
	}
	return cmd
}

// patch makes a merge patch of the flags that were given.
func (f *createFlags) patch(flags *pflag.FlagSet, unset []string) (map[string]any, error) {
	spec, err := f.options(flags)
	if err != nil {
		return nil, err
	}
	values, err := optionsOf(spec)
	if err != nil {
		return nil, err
	}
	patch := map[string]any{}
	flags.VisitAll(func(flag *pflag.Flag) {
		if name := optionOf(flag.Name); flag.Changed && name != "" {
			patch[name] = values[name] // nil, and so the default, for a list that is empty
		}
	})
	for _, u := range unset {
		if err := f.unset(patch, flags, u); err != nil {
			return nil, err
		}
	}
	return patch, nil
}

func (f *createFlags) unset(patch map[string]any, flags *pflag.FlagSet, what string) error {
	option, entry, isEntry := strings.Cut(strings.TrimPrefix(what, "--"), ".")
	name := optionOf(strings.ReplaceAll(option, "_", "-"))
	entries, isMap := mapOptions[name]
	switch {
	case name == "":
		text := fmt.Sprintf("--unset %s: there is no such option", what)
		var known []string
		flags.VisitAll(func(flag *pflag.Flag) {
			if optionOf(flag.Name) != "" {
				known = append(known, flag.Name)
			}
		})
		if near := graphmill.Nearest(option, known); near != "" {
			text += "; did you mean " + near + "?"
		}
		return wrongUsage("%s", text)
	case isEntry && (!isMap || entry == ""):
		return wrongUsage("--unset %s: only settings, configs and credentials have entries", what)
	case !isEntry:
		if _, given := patch[name]; given {
			return wrongUsage("--unset %s: the option is given, too", what)
		}
		patch[name] = nil
		return nil
	}
	given, _ := patch[name].(map[string]any)
	if given == nil {
		given = map[string]any{}
	}
	if _, twice := given[entry]; twice {
		return wrongUsage("--unset %s: %s %s is given, too", what, entries, entry)
	}
	given[entry] = nil
	patch[name] = given
	return nil
}

// mapOptions are the options that have entries, with the flag of one.
var mapOptions = map[string]string{"settings": "--setting", "configs": "--config", "credentials": "--credential"}

// optionOf returns the option of a definition that a flag gives, or "".
func optionOf(flag string) string {
	switch flag {
	case "setting", "settings", "settings-file":
		return "settings"
	case "config", "configs":
		return "configs"
	case "credential", "credentials":
		return "credentials"
	case "batch-interval", "time-limit":
		return strings.ReplaceAll(flag, "-", "_") + "_ms"
	case "topics", "transform", "start-from", "batch-size", "batch-bytes", "source", "bootstrap-servers", "consumer-group",
		"service-url", "topics-pattern", "subscription", "subscription-type",
		"database", "delivery", "on-failure", "coalesce", "allow", "memory-limit", "response-limit":
		return strings.ReplaceAll(flag, "-", "_")
	}
	return ""
}

// optionsOf returns the options that have a value, as JSON has them.
func optionsOf(spec graphmill.StreamSpec) (map[string]any, error) {
	doc, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode the definition: %w", err)
	}
	var options map[string]any
	decoder := json.NewDecoder(bytes.NewReader(doc))
	decoder.UseNumber() // all digits
	return options, decoder.Decode(&options)
}

// printChanges shows each option that has another value now.
func printChanges(w io.Writer, before *api.StreamDefinition, after *api.ChangedDefinition) error {
	if len(after.Changed) == 0 {
		fmt.Fprintf(w, "%s: nothing has changed\n", after.Name)
		return nil
	}
	was, err := optionsOf(graphmill.StreamSpec(*before))
	if err != nil {
		return err
	}
	is, err := optionsOf(graphmill.StreamSpec(after.StreamDefinition))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "changed %s: %s\n", after.Name, after.State)
	for _, name := range after.Changed {
		old, now := valueText(was, name), valueText(is, name)
		if old == now { // secrets
			fmt.Fprintf(w, "  %s: another value\n", name)
			continue
		}
		fmt.Fprintf(w, "  %s: %s -> %s\n", name, old, now)
	}
	return nil
}

// noValue is shown in place of a value that is not given.
const noValue = "(none)"

// valueText writes the value of an option, or of an entry of one.
func valueText(options map[string]any, name string) string {
	option, entry, _ := strings.Cut(name, ".")
	value := options[option]
	if entries, isMap := value.(map[string]any); isMap {
		value = entries[entry]
	}
	switch v := value.(type) {
	case nil:
		return noValue
	case string:
		if v == "" {
			return `""`
		}
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = fmt.Sprint(v[i])
		}
		return strings.Join(parts, ", ")
	}
	return clip(fmt.Sprint(value), 200)
}
