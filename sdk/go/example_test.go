package graphmill_test

import (
	"errors"
	"fmt"

	graphmill "github.com/graphmill/graphmill/sdk/go"
	"github.com/graphmill/graphmill/sdk/go/json"
)

var (
	order    json.Shape
	orderID  = order.Text("id")
	customer = order.Int("customer")
	lines    = order.OptRaw("lines")
)

// A handler of single messages. JSON gives a part of a document as a value.
func ExamplePerMessage() {
	placed := graphmill.NewQuery(`
		MERGE (o:Order {id: $id})
		MERGE (c:Customer {id: $customer}) MERGE (c)-[:PLACED]->(o)
		WITH o UNWIND $lines AS line
		MERGE (p:Product {sku: line.sku}) MERGE (o)-[:CONTAINS {count: line.count}]->(p)`,
		"id", "customer", "lines")

	place := func(m graphmill.Message, out graphmill.Output) error {
		if m.Payload() == nil {
			return nil // nothing to do for a tombstone
		}
		var event json.Object
		if err := event.Parse(&order, m.Payload()); err != nil {
			return err
		}
		out.Statement(placed).
			Text(event.Text(orderID)).
			Int(event.Int(customer)).
			JSON(event.Raw(lines))
		return nil
	}

	// This stands in main.go with the comment "//go:wasmexport transform" above it.
	transform := func(batch graphmill.Request) graphmill.Response {
		return graphmill.PerMessage(batch, place)
	}
	_ = transform
}

// A handler that gives the fields of a document as they are: the shortest form, and the
// fastest.
func ExampleOutput_Fields() {
	sensor := json.NewShape(json.Text("id"), json.OptFloat("celsius"), json.OptInt("battery"))
	measured := graphmill.NewQuery(`MERGE (s:Sensor {id: $id}) SET s.celsius = $celsius, s.battery = $battery`, sensor.Names()...)

	measure := func(m graphmill.Message, out graphmill.Output) error {
		if m.Payload() != nil {
			out.Fields(measured, sensor, m.Payload())
		}
		return nil
	}
	transform := func(batch graphmill.Request) graphmill.Response {
		return graphmill.PerMessage(batch, measure)
	}
	_ = transform
}

// More values than those of the document: they follow in the order of the query's names.
func ExampleStatement_Fields() {
	sensor := json.NewShape(json.Text("id"), json.OptFloat("celsius"))
	measured := graphmill.NewQuery(`MERGE (s:Sensor {id: $id}) SET s.celsius = $celsius, s.at = datetime({epochMillis: $at})`,
		append(sensor.Names(), "at")...)
	handle := func(m graphmill.Message, out graphmill.Output) error {
		out.Statement(measured).Fields(sensor, m.Payload()).Int(m.Timestamp())
		return nil
	}
	_ = handle
}

// A handler that looks at fields before it gives them. Optional ones are given as they
// are asked for.
func ExampleStatement_OptInt() {
	var (
		person json.Shape
		name   = person.Text("name")
		age    = person.OptInt("age")
	)
	seen := graphmill.NewQuery(`MERGE (p:Person {name: $name}) SET p.age = $age`, "name", "age")
	handle := func(m graphmill.Message, out graphmill.Output) error {
		var event json.Object
		if err := event.Parse(&person, m.Payload()); err != nil {
			return err
		}
		if len(event.Text(name)) == 0 {
			return nil // a message without a statement is dropped
		}
		out.Statement(seen).Text(event.Text(name)).OptInt(event.OptInt(age))
		return nil
	}
	_ = handle
}

// A handler of whole batches. Here it counts, so that a node that many messages touch
// is written once a batch.
func ExamplePerBatch() {
	counted := graphmill.NewQuery(`MERGE (p:Page {url: $url}) SET p.views = coalesce(p.views, 0) + $views`, "url", "views")

	count := func(b *graphmill.Batch) error {
		views := map[string]int64{}
		for _, m := range b.All() {
			if m.Key() == nil {
				b.Fail(m, errors.New("a view needs the url as its key"))
				continue
			}
			views[string(m.Key())]++
		}
		for url, n := range views {
			b.Whole().Statement(counted).String(url).Int(n)
		}
		return nil
	}
	transform := func(batch graphmill.Request) graphmill.Response {
		return graphmill.PerBatch(batch, count)
	}
	_ = transform
}

// Lists and maps are written value by value.
func ExampleStatement() {
	q := graphmill.NewQuery(`CREATE (:Track {points: $points, about: $about})`)
	handle := func(_ graphmill.Message, out graphmill.Output) error {
		s := out.Statement(q)
		s.Key("points").List()
		for i := range 3 {
			s.Point2D(graphmill.Point2D{SRID: graphmill.WGS84, X: 12 + float64(i), Y: 56})
		}
		s.End()
		s.Key("about").Map().Key("length").Int(3).Key("name").Null().End()
		return nil
	}
	_ = handle
}

// Settings of the stream are checked before the first message.
func ExampleSettings_Only() {
	configure := func(s graphmill.Settings) error {
		if err := s.Only("label", "limit"); err != nil {
			return err
		}
		limit, err := s.Int("limit", 100)
		if err != nil {
			return err
		}
		fmt.Println(s["label"], limit)
		return nil
	}
	fmt.Println(configure(graphmill.Settings{"label": "User"}))
	fmt.Println(configure(graphmill.Settings{"lable": "User"}))
	// Output:
	// User 100
	// <nil>
	// unknown setting "lable", did you mean label?; there are: label, limit
}
