package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"github.com/graphmill/graphmill"
)

const (
	goLanguage = "go"
	goSDKPath  = "github.com/graphmill/graphmill/sdk/go"
)

// goSDKPlace is where the SDK for Go stands in a clone of Graphmill.
var goSDKPlace = filepath.Join("sdk", "go")

// goTemplate is what the templates of a plugin in Go may use.
type goTemplate struct {
	Name       string // of the plugin
	ModulePath string // of its Go module
	GoVersion  string // the SDK's
	SDKPath    string // module path of the SDK
	SDKReplace string // its directory, as go.mod writes it
}

// FindSDK returns the directory of a language's SDK in the clone of Graphmill that
// holds one of the directories from; the first one counts that lies in a clone. The
// error is a *graphmill.Error.
func FindSDK(language string, from ...string) (string, error) {
	if err := checkLanguage(language); err != nil {
		return "", err
	}
	for _, start := range from {
		dir, err := filepath.Abs(start)
		if err != nil {
			return "", fmt.Errorf("find the working directory: %w", err)
		}
		for {
			sdk := filepath.Join(dir, goSDKPlace)
			if _, err := readGoSDK(sdk); err == nil {
				return sdk, nil
			}
			above := filepath.Dir(dir)
			if above == dir {
				break
			}
			dir = above
		}
	}
	missing := graphmill.NotFound("sdk_not_found", "the SDK for Go is not found in or above %s", strings.Join(from, ", nor "))
	missing.Next = "name the directory sdk/go of a clone of Graphmill: --sdk DIR"
	return "", missing
}

// readGoSDK reads the go.mod of the SDK, and returns the version of Go that it needs.
func readGoSDK(dir string) (version string, err error) {
	refusal := graphmill.Invalid("sdk", "the SDK for Go is not in %s", dir)
	refusal.Next = "name the directory sdk/go of a clone of Graphmill: --sdk DIR"
	path := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", refusal
	}
	if err != nil {
		return "", fmt.Errorf("read the SDK: %w", err)
	}
	parsed, err := modfile.ParseLax(path, text, nil)
	if err != nil {
		refusal.Err = err
		return "", refusal
	}
	if parsed.Module == nil || parsed.Module.Mod.Path != goSDKPath || parsed.Go == nil {
		return "", refusal
	}
	return parsed.Go.Version, nil
}

// goValues gathers what the templates need for a plugin in dir, which is absolute.
func goValues(cfg Config, dir string) (goTemplate, error) {
	if cfg.SDKDir == "" {
		return goTemplate{}, graphmill.Invalid("sdk", "the directory of the SDK is needed")
	}
	sdk, err := filepath.Abs(cfg.SDKDir)
	if err != nil {
		return goTemplate{}, fmt.Errorf("find the working directory: %w", err)
	}
	version, err := readGoSDK(sdk)
	if err != nil {
		return goTemplate{}, err
	}
	return goTemplate{
		Name:       cfg.Name,
		ModulePath: goModulePath(cfg.Name),
		GoVersion:  version,
		SDKPath:    goSDKPath,
		SDKReplace: modfile.AutoQuote(replacement(dir, sdk)),
	}, nil
}

// goModulePath returns a path that Go takes for the module of a plugin. Some names it
// does not take as they are, such as "v1" and "aux".
func goModulePath(name string) string {
	path := "example.com/" + name
	if module.CheckPath(path) != nil {
		path = "example.com/plugin-" + name
	}
	return path
}

// replacement returns how a plugin in dir refers to the SDK. In or beside the clone
// the path is relative, so that both can be moved together. Both are absolute, and
// symbolic links stay as they are, since that is how Go reads go.mod.
func replacement(dir, sdk string) string {
	clone, ok := strings.CutSuffix(sdk, string(filepath.Separator)+goSDKPlace)
	if !ok {
		return sdk
	}
	inside := strings.HasPrefix(dir, clone+string(filepath.Separator))
	beside := filepath.Dir(dir) == filepath.Dir(clone)
	if relative, err := filepath.Rel(dir, sdk); err == nil && (inside || beside) {
		return filepath.ToSlash(relative)
	}
	return sdk
}
