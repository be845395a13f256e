package api

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"
)

//go:embed docs.html
var docsPage string

// serveDocs serves the description at /openapi.json and, made of it, a page
// for people at /docs. The page is whole in itself: it asks nothing of any
// other host. Both are made once, here.
func (s *service) serveDocs(mux chi.Router) error {
	doc, err := json.Marshal(s.huma.OpenAPI())
	if err != nil {
		return fmt.Errorf("encode the OpenAPI description: %w", err)
	}
	page, err := renderDocs(s.huma.OpenAPI())
	if err != nil {
		return fmt.Errorf("render the documentation: %w", err)
	}
	mux.Get("/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(doc)
	})
	mux.Get("/docs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		_, _ = w.Write(page)
	})
	mux.Get("/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/docs", http.StatusFound)
	})
	return nil
}

type (
	docsGroup struct {
		Name, Description string
		Operations        []docsOperation
	}
	docsOperation struct {
		Method, Path, ID, Summary, Description string
		Parameters                             []*huma.Param
		Body                                   docsBody
		Answers                                []docsBody
	}
	docsBody struct {
		Status, Type, Schema, Description string
	}
	docsSchema struct {
		Name   string
		Fields []docsField
	}
	docsField struct {
		Name, Type, Description string
		Required                bool
	}
)

func renderDocs(doc *huma.OpenAPI) ([]byte, error) {
	page, err := template.New("docs").Parse(docsPage)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{
		"Info": doc.Info, "Groups": docsGroups(doc), "Schemas": docsSchemas(doc),
	})
	return out.Bytes(), err
}

func docsGroups(doc *huma.OpenAPI) []docsGroup {
	groups := make([]docsGroup, len(doc.Tags))
	for i, tag := range doc.Tags {
		groups[i] = docsGroup{Name: tag.Name, Description: tag.Description}
	}
	paths := make([]string, 0, len(doc.Paths))
	for p := range doc.Paths {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		item := doc.Paths[p]
		for _, op := range []*huma.Operation{item.Put, item.Post, item.Get, item.Delete} {
			if op == nil {
				continue
			}
			i := slices.IndexFunc(groups, func(g docsGroup) bool { return g.Name == op.Tags[0] })
			groups[i].Operations = append(groups[i].Operations, newDocsOperation(op))
		}
	}
	return groups
}

func newDocsOperation(op *huma.Operation) docsOperation {
	d := docsOperation{
		Method: op.Method, Path: op.Path, ID: op.OperationID, Summary: op.Summary, Description: op.Description,
		Parameters: op.Parameters,
	}
	if op.RequestBody != nil {
		d.Body = newDocsBody("", op.RequestBody.Description, op.RequestBody.Content)
	}
	statuses := make([]string, 0, len(op.Responses))
	for status := range op.Responses {
		statuses = append(statuses, status)
	}
	slices.Sort(statuses) // digits before "default"
	for _, status := range statuses {
		r := op.Responses[status]
		d.Answers = append(d.Answers, newDocsBody(status, r.Description, r.Content))
	}
	return d
}

func newDocsBody(status, description string, content map[string]*huma.MediaType) docsBody {
	b := docsBody{Status: status, Description: description}
	for media, c := range content { // one each, here
		b.Type, b.Schema = media, schemaName(c.Schema)
	}
	return b
}

func docsSchemas(doc *huma.OpenAPI) []docsSchema {
	var out []docsSchema
	for name, schema := range doc.Components.Schemas.Map() {
		d := docsSchema{Name: name}
		for field, p := range schema.Properties {
			d.Fields = append(d.Fields, docsField{
				Name: field, Type: schemaType(p), Description: p.Description,
				Required: slices.Contains(schema.Required, field),
			})
		}
		slices.SortFunc(d.Fields, func(a, b docsField) int { return strings.Compare(a.Name, b.Name) })
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b docsSchema) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func schemaName(s *huma.Schema) string {
	if s == nil {
		return ""
	}
	return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
}

func schemaType(s *huma.Schema) string {
	switch {
	case s == nil:
		return ""
	case s.Ref != "":
		return schemaName(s)
	case s.Type == huma.TypeArray:
		return "list of " + schemaType(s.Items)
	case len(s.Enum) > 0:
		words := make([]string, len(s.Enum))
		for i, e := range s.Enum {
			words[i] = fmt.Sprint(e)
		}
		return strings.Join(words, " or ")
	case s.Type == "":
		return "any"
	case s.Format != "" && s.Type == huma.TypeString:
		return s.Format
	}
	return s.Type
}
