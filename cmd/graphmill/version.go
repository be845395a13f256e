package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is set by the linker for a release: -X main.release=v1.2.3.
var release string

// version returns the release, else what the Go toolchain knows.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

type versionAnswer struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Tell the version of this program",
		Args:  takes(),
	}
	out := a.outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		v := versionAnswer{Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					v.Commit = s.Value
				}
			}
		}
		return out.print(v, func(w io.Writer) error {
			commit := ""
			if v.Commit != "" {
				commit = "commit " + v.Commit[:min(12, len(v.Commit))] + ", "
			}
			_, err := fmt.Fprintf(w, "graphmill %s (%s%s, %s)\n", v.Version, commit, v.Go, v.Platform)
			return err
		})
	}
	return cmd
}
