package query

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api/statement"
)

// procedure is one that CALL knows.
type procedure struct {
	name       string
	parameters []parameter
	results    []string // sorted: clients rely on it where all are asked for
	run        func(e *executor, ctx context.Context, a arguments) ([][]graphmill.Value, error)
}

type parameter struct {
	name   string
	number bool // an integer; else a string
}

// arguments are the checked arguments of a call, in order.
type arguments []any

func (a arguments) text(i int) string  { return a[i].(string) }
func (a arguments) number(i int) int64 { return a[i].(int64) }

// procedures are all procedures, sorted by name.
func procedures() []procedure {
	name, path, content := parameter{name: "stream_name"}, parameter{name: "path"}, parameter{name: "content"}
	return []procedure{
		{"mg.create_module_file", []parameter{{name: "filename"}, content}, []string{"path"}, (*executor).createModuleFile},
		{"mg.delete_module_file", []parameter{path}, nil, (*executor).deleteModuleFile},
		{"mg.functions", nil, []string{"is_editable", "name", "path", "signature"}, nothing},
		{"mg.get_module_file", []parameter{path}, []string{"content"}, (*executor).moduleFile},
		{"mg.get_module_files", nil, []string{"is_editable", "path", "sha256", "version"}, (*executor).moduleFiles},
		{"mg.kafka_set_stream_offset", []parameter{name, {"offset", true}}, nil, (*executor).setOffset},
		{"mg.kafka_stream_info", []parameter{name}, []string{"bootstrap_servers", "configs", "consumer_group", "credentials", "topics"}, (*executor).kafkaInfo},
		{"mg.load", []parameter{{name: "module_name"}}, nil, (*executor).load},
		{"mg.load_all", nil, nil, (*executor).loadAll},
		{"mg.procedures", nil, []string{"is_editable", "is_write", "name", "path", "signature"}, nothing},
		{"mg.pulsar_stream_info", []parameter{name}, []string{"service_url", "topics"}, (*executor).pulsarInfo},
		{"mg.stream_status", []parameter{name}, statusColumns, (*executor).status},
		{"mg.transformations", nil, []string{"is_editable", "name", "path"}, (*executor).transformations},
		{"mg.update_module_file", []parameter{path, content}, nil, (*executor).updateModuleFile},
	}
}

// ProcedureNames lists the procedures that CALL knows, sorted.
func ProcedureNames() []string {
	var names []string
	for _, p := range procedures() {
		names = append(names, p.name)
	}
	return names
}

// nothing is run for what Graphmill has none of: Memgraph's query modules.
func nothing(*executor, context.Context, arguments) ([][]graphmill.Value, error) { return nil, nil }

func (e *executor) call(ctx context.Context, c *statement.Call) (Result, error) {
	all := procedures()
	i := slices.IndexFunc(all, func(p procedure) bool { return p.name == c.Procedure })
	if i < 0 {
		err := graphmill.NotFound("procedure_not_found", "There is no procedure named '%s'", cut(c.Procedure))
		if near := graphmill.Nearest(c.Procedure, ProcedureNames()); near != "" {
			err.Next = "did you mean " + near + "?"
		} else {
			err.Next = "there are " + strings.Join(ProcedureNames(), ", ")
		}
		return Result{}, err
	}
	p := all[i]
	if err := p.check(c.Arguments); err != nil {
		return Result{}, err
	}
	columns, picked, err := p.pick(c.Yield)
	if err != nil {
		return Result{}, err
	}
	rows, err := p.run(e, ctx, c.Arguments)
	if err != nil {
		return Result{}, err
	}
	r := Result{Columns: columns}
	for _, row := range rows {
		values := make([]graphmill.Value, len(picked))
		for i, k := range picked {
			values[i] = row[k]
		}
		r.Rows = append(r.Rows, values)
	}
	return r, nil
}

// signature is the procedure as its errors and the documentation show it.
func (p *procedure) signature() string {
	parameters := make([]string, len(p.parameters))
	for i, x := range p.parameters {
		parameters[i] = x.name + " :: " + x.kind()
	}
	return p.name + "(" + strings.Join(parameters, ", ") + ")"
}

func (x parameter) kind() string {
	if x.number {
		return "INTEGER"
	}
	return "STRING"
}

func (p *procedure) check(given []any) error {
	if len(given) != len(p.parameters) {
		return graphmill.Invalid("", "'%s' takes %d arguments, %d are given: %s", p.name, len(p.parameters), len(given), p.signature())
	}
	for i, x := range p.parameters {
		_, isNumber := given[i].(int64)
		_, isText := given[i].(string)
		if x.number && !isNumber || !x.number && !isText {
			return graphmill.Invalid("", "'%s' argument named '%s' at position %d must be of type %s", p.name, x.name, i, x.kind())
		}
	}
	return nil
}

// pick returns the columns of a call, and of each the result that it holds.
func (p *procedure) pick(yield []statement.Yield) (columns []string, results []int, err error) {
	if yield == nil {
		for i := range p.results {
			results = append(results, i)
		}
		return p.results, results, nil
	}
	for _, y := range yield {
		i := slices.Index(p.results, y.Name)
		if i < 0 {
			e := graphmill.Invalid("", "'%s' does not yield a result named '%s'", p.name, cut(y.Name))
			if len(p.results) > 0 {
				e.Next = fmt.Sprintf("it yields %s", strings.Join(p.results, ", "))
			}
			return nil, nil, e
		}
		columns, results = append(columns, y.As), append(results, i)
	}
	return columns, results, nil
}
