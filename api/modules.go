package api

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/server"
)

// PushedModule is the answer to an upload.
type PushedModule struct {
	graphmill.Module
	Created bool     `json:"created" doc:"False: these bytes were the newest version already, and none has been made."`
	Checked []string `json:"checked" doc:"What was checked, a sentence each."`
}

// Modules is a list of modules.
type Modules struct {
	Modules []graphmill.Module `json:"modules" doc:"The active version of each module, sorted by name."`
}

// ModuleVersions is a module with all its versions.
type ModuleVersions struct {
	Name     string             `json:"name" doc:"The name of the module."`
	Active   int                `json:"active" doc:"The version that streams use; 0: none."`
	ReadOnly bool               `json:"read_only" doc:"Lies beside the program and cannot be removed."`
	Versions []graphmill.Module `json:"versions" doc:"All versions, newest first."`
	Streams  []server.ModuleUse `json:"streams" doc:"The streams that use the module, running or not."`
}

// Rollback is the body that makes another version the active one.
type Rollback struct {
	Version int `json:"version,omitempty" minimum:"1" doc:"The version to make active, an earlier or a later one; left out: the one before the active one."`
}

type (
	moduleInput struct {
		Name string `path:"name" doc:"The name of the module."`
	}
	pushInput struct {
		Name     string `path:"name" doc:"The name of the module."`
		Type     string `header:"Content-Type" hidden:"true"`
		Activate bool   `query:"activate" default:"true" doc:"Whether streams use this version from now on."`
	}
	pushOutput struct {
		Status   int
		Location string `header:"Location" doc:"Where this version is."`
		Body     PushedModule
	}
	modulesOutput  struct{ Body Modules }
	versionsOutput struct{ Body ModuleVersions }
	versionInput   struct {
		Name    string `path:"name" doc:"The name of the module."`
		Version int    `path:"version" minimum:"1" doc:"The number of the version."`
	}
	versionOutput struct{ Body graphmill.Module }
	contentOutput struct {
		Type string `header:"Content-Type" hidden:"true"`
		Body []byte
	}
	rollbackInput struct {
		Name string `path:"name" doc:"The name of the module."`
		Body *Rollback
	}
)

func (s *service) registerModules() {
	const path = prefix + "/modules/{name}"
	register(s, huma.Operation{
		OperationID: "pushModule", Method: http.MethodPut, Path: path, Tags: []string{"Modules"},
		Summary: "Upload a module",
		Description: "The body is the file itself. It is checked whole before anything of it is kept: size, counts, imports, " +
			"exports and their types, and that it can be instantiated. The same bytes again make no new version.",
		DefaultStatus: http.StatusCreated,
		MaxBodyBytes:  s.cfg.MaxModuleBytes,
		RequestBody: &huma.RequestBody{
			Description: "The module.", Required: true,
			Content: map[string]*huma.MediaType{wasmType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
		},
		Responses: map[string]*huma.Response{"200": {Description: "These bytes were the newest version already. The answer is like that of 201."}},
	}, s.pushModule)
	answers := s.huma.OpenAPI().Paths[path].Put.Responses
	answers["200"].Content = answers["201"].Content
	register(s, huma.Operation{
		OperationID: "listModules", Method: http.MethodGet, Path: prefix + "/modules", Tags: []string{"Modules"},
		Summary: "List modules",
	}, s.listModules)
	register(s, huma.Operation{
		OperationID: "showModule", Method: http.MethodGet, Path: path, Tags: []string{"Modules"},
		Summary: "Show a module and its versions",
	}, s.showModule)
	register(s, huma.Operation{
		OperationID: "showModuleVersion", Method: http.MethodGet, Path: path + "/versions/{version}", Tags: []string{"Modules"},
		Summary: "Show one version of a module",
	}, s.showModuleVersion)
	register(s, huma.Operation{
		OperationID: "moduleContent", Method: http.MethodGet, Path: path + "/versions/{version}/content", Tags: []string{"Modules"},
		Summary:     "Download one version of a module",
		Description: "The bytes that were uploaded. A conflict where they are lost or damaged on the server's disk.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The module.",
			Content:     map[string]*huma.MediaType{wasmType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
		}},
	}, s.moduleContent)
	register(s, huma.Operation{
		OperationID: "deleteModuleVersion", Method: http.MethodDelete, Path: path + "/versions/{version}", Tags: []string{"Modules"},
		Summary: "Remove one version of a module",
		Description: "A conflict for the active version. Its number is not given again. The only version is removed as the module is: " +
			"a conflict while a stream uses it.",
	}, s.deleteModuleVersion)
	register(s, huma.Operation{
		OperationID: "rollbackModule", Method: http.MethodPost, Path: path + ":rollback", Tags: []string{"Modules"},
		Summary: "Make another version the active one",
		Description: "Running streams take it behind the batch that they are executing. A conflict where a stream, running or not, " +
			"uses a function that the version lacks.",
	}, s.rollbackModule)
	register(s, huma.Operation{
		OperationID: "deleteModule", Method: http.MethodDelete, Path: path, Tags: []string{"Modules"},
		Summary:     "Remove a module",
		Description: "All its versions. A conflict while a stream uses it, running or not.",
	}, s.deleteModule)
}

func (s *service) pushModule(ctx context.Context, in *pushInput) (*pushOutput, error) {
	if err := graphmill.ValidateName("name", in.Name); err != nil {
		return nil, err
	}
	media, _, err := mime.ParseMediaType(in.Type)
	if err != nil {
		return nil, graphmill.Invalid("Content-Type", "%s", err)
	}
	res, err := s.engine.PushModule(ctx, server.PushRequest{
		Name: in.Name, ContentType: media, Bytes: rawBody(ctx), NoActivate: !in.Activate,
	})
	if err != nil {
		return nil, err
	}
	out := &pushOutput{
		Status:   http.StatusOK,
		Location: versionPath(res.Module.Name, res.Module.Version),
		Body:     PushedModule{Module: listed(res.Module), Created: res.Created, Checked: orEmpty(res.Checked)},
	}
	if res.Created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

func (s *service) listModules(ctx context.Context, _ *struct{}) (*modulesOutput, error) {
	modules, err := s.engine.Modules(ctx)
	if err != nil {
		return nil, err
	}
	return &modulesOutput{Body: Modules{Modules: listedAll(modules)}}, nil
}

func (s *service) showModule(ctx context.Context, in *moduleInput) (*versionsOutput, error) {
	if err := graphmill.ValidateName("name", in.Name); err != nil {
		return nil, err
	}
	versions, err := s.engine.ModuleVersions(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	uses, err := s.engine.ModuleUses(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	out := &versionsOutput{Body: ModuleVersions{Name: in.Name, Versions: listedAll(versions), Streams: orEmpty(uses)}}
	for _, m := range versions {
		if m.Active {
			out.Body.Active = m.Version
		}
		out.Body.ReadOnly = out.Body.ReadOnly || m.ReadOnly
	}
	return out, nil
}

func (s *service) showModuleVersion(ctx context.Context, in *versionInput) (*versionOutput, error) {
	if err := graphmill.ValidateName("name", in.Name); err != nil {
		return nil, err
	}
	versions, err := s.engine.ModuleVersions(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(versions, func(m graphmill.Module) bool { return m.Version == in.Version })
	if i < 0 {
		return nil, graphmill.NotFound("version_not_found", "the module %s has no version %d", in.Name, in.Version)
	}
	return &versionOutput{Body: listed(versions[i])}, nil
}

func (s *service) moduleContent(ctx context.Context, in *versionInput) (*contentOutput, error) {
	if err := graphmill.ValidateName("name", in.Name); err != nil {
		return nil, err
	}
	m, content, err := s.engine.ModuleContent(ctx, in.Name, in.Version)
	if err != nil {
		return nil, err
	}
	return &contentOutput{Type: m.ContentType, Body: content}, nil
}

func (s *service) deleteModule(ctx context.Context, in *moduleInput) (*struct{}, error) {
	if err := graphmill.ValidateName("name", in.Name); err != nil {
		return nil, err
	}
	return nil, s.engine.DeleteModule(ctx, in.Name)
}

func (s *service) deleteModuleVersion(ctx context.Context, in *versionInput) (*struct{}, error) {
	if err := graphmill.ValidateName("name", in.Name); err != nil {
		return nil, err
	}
	return nil, s.engine.DeleteModuleVersion(ctx, in.Name, in.Version)
}

func (s *service) rollbackModule(ctx context.Context, in *rollbackInput) (*versionOutput, error) {
	if err := graphmill.ValidateName("name", in.Name); err != nil {
		return nil, err
	}
	version := 0 // the one before
	if in.Body != nil {
		version = in.Body.Version
	}
	m, err := s.engine.RollbackModule(ctx, in.Name, version)
	if err != nil {
		return nil, err
	}
	return &versionOutput{Body: listed(m)}, nil
}

// listed makes sure that a module's lists are not null in JSON.
func listed(m graphmill.Module) graphmill.Module {
	m.Transformations = orEmpty(m.Transformations)
	return m
}

func listedAll(modules []graphmill.Module) []graphmill.Module {
	out := make([]graphmill.Module, 0, len(modules))
	for _, m := range modules {
		out = append(out, listed(m))
	}
	return out
}

func versionPath(name string, version int) string {
	return fmt.Sprintf("%s/modules/%s/versions/%d", prefix, name, version)
}

// orEmpty makes an empty list of none, since JSON tells the two apart.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
