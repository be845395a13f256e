// Conformance is the module by which the SDK for Go proves that it keeps the
// transformation ABI: see sdk/CONFORMANCE.md for what each export has to do. It is
// an example of everything that the SDK offers, too.
package main

import (
	"errors"
	"strconv"
	"strings"

	graphmill "github.com/graphmill/graphmill/sdk/go"
)

var (
	echoQuery  = graphmill.NewQuery("ECHO")
	position   = graphmill.NewQuery("POSITIONAL", "index", "payload", "topic")
	first      = graphmill.NewQuery("FIRST")
	second     = graphmill.NewQuery("SECOND", "n")
	keep       = graphmill.NewQuery("KEEP")
	ok         = graphmill.NewQuery("OK")
	batchQuery = graphmill.NewQuery("BATCH")
	settings   = graphmill.NewQuery("SETTINGS")
	big        = graphmill.NewQuery("BIG")
)

//go:wasmexport echo
func exportEcho(b graphmill.Request) graphmill.Response { return graphmill.PerMessage(b, echo) }

func echo(m graphmill.Message, out graphmill.Output) error {
	s := out.Statement(echoQuery).
		Key("index").Int(int64(m.Index())).
		Key("stream").String(m.Stream()).
		Key("source").Int(int64(m.Source())).
		Key("topic").String(m.Topic()).
		Key("partition").Int(int64(m.Partition())).
		Key("offset").Int(m.Offset()).
		Key("timestamp").Int(m.Timestamp()).
		Key("broker_time").Int(m.BrokerTime()).
		Key("redeliveries").Int(int64(m.Redeliveries())).
		Key("id").String(m.ID()).
		Key("payload").Bytes(m.Payload()).
		Key("key").Bytes(m.Key())
	s.Key("headers").List()
	for key, value := range m.Headers() {
		s.List().String(key).Bytes(value).End()
	}
	s.End()
	return nil
}

//go:wasmexport positional
func exportPositional(b graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(b, func(m graphmill.Message, out graphmill.Output) error {
		out.Statement(position).Int(int64(m.Index())).Bytes(m.Payload()).String(m.Topic())
		return nil
	})
}

//go:wasmexport texts
func exportTexts(b graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(b, func(m graphmill.Message, out graphmill.Output) error {
		out.Add(string(m.Payload()), nil)
		return nil
	})
}

//go:wasmexport mixed
func exportMixed(b graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(b, func(_ graphmill.Message, out graphmill.Output) error {
		out.Statement(first).Key("n").Int(1)
		out.Statement(second).Int(2)
		out.Statement(first).Key("n").Int(3)
		return nil
	})
}

//go:wasmexport filter
func exportFilter(b graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(b, func(m graphmill.Message, out graphmill.Output) error {
		if m.Index()%2 == 1 {
			out.Statement(keep).Key("index").Int(int64(m.Index()))
		}
		return nil
	})
}

//go:wasmexport fail
func exportFail(b graphmill.Request) graphmill.Response { return graphmill.PerMessage(b, fail) }

func fail(m graphmill.Message, out graphmill.Output) error {
	out.Statement(ok) // taken back where an error follows
	command, text, _ := strings.Cut(string(m.Payload()), ":")
	switch command {
	case "fail":
		return errors.New(text)
	case "retry":
		return graphmill.Retry(errors.New(text))
	}
	return nil
}

//go:wasmexport abort
func exportAbort(b graphmill.Request) graphmill.Response {
	return graphmill.PerBatch(b, func(b *graphmill.Batch) error {
		for _, m := range b.All() {
			if text, found := strings.CutPrefix(string(m.Payload()), "abort:"); found {
				return graphmill.Abort(m, errors.New(text))
			}
			b.Output(m).Statement(ok)
		}
		return nil
	})
}

//go:wasmexport batch
func exportBatch(b graphmill.Request) graphmill.Response { return graphmill.PerBatch(b, batch) }

func batch(b *graphmill.Batch) error {
	bytes := 0
	for i, m := range b.All() {
		if text, found := strings.CutPrefix(string(m.Payload()), "refuse:"); found && i == 0 {
			return errors.New(text)
		}
		bytes += len(m.Payload())
	}
	b.Whole().Statement(batchQuery).Key("messages").Int(int64(b.Len())).Key("bytes").Int(int64(bytes))
	return nil
}

//go:wasmexport panic
func exportPanic(b graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(b, func(m graphmill.Message, out graphmill.Output) error {
		if string(m.Payload()) == "panic" {
			panic("told to panic")
		}
		out.Statement(ok)
		return nil
	})
}

//go:wasmexport log
func exportLog(b graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(b, func(m graphmill.Message, _ graphmill.Output) error {
		level, text, _ := strings.Cut(string(m.Payload()), ":")
		switch level {
		case "debug":
			graphmill.LogDebug(text)
		case "info":
			graphmill.LogInfo(text)
		case "warn":
			graphmill.LogWarn(text)
		case "error":
			graphmill.LogError(text)
		}
		return nil
	})
}

var given graphmill.Settings

func init() {
	graphmill.Configure(func(s graphmill.Settings) error {
		if text, found := s["fail"]; found {
			return errors.New(text)
		}
		given = s
		return nil
	})
}

//go:wasmexport settings
func exportSettings(b graphmill.Request) graphmill.Response {
	return graphmill.PerBatch(b, func(b *graphmill.Batch) error {
		s := b.Whole().Statement(settings)
		for name, value := range given {
			s.Key(name).String(value)
		}
		return nil
	})
}

//go:wasmexport big
func exportBig(b graphmill.Request) graphmill.Response {
	return graphmill.PerMessage(b, func(m graphmill.Message, out graphmill.Output) error {
		n, err := strconv.Atoi(string(m.Payload()))
		if err != nil {
			return err
		}
		out.Statement(big).Key("data").String(strings.Repeat("x", n))
		return nil
	})
}

func main() {}
