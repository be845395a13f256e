package wasmhost_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost"
	"github.com/graphmill/graphmill/wasmhost/meter"
	. "github.com/graphmill/graphmill/wasmhost/wasmtest"
)

// FuzzCheck gives the host any bytes: it accepts them, and then they can be run,
// or it refuses them with an error about the module. The engine never fails.
func FuzzCheck(f *testing.F) {
	f.Add(Answer(emptyAnswer).Bytes())
	f.Add(Guest(Cat(Forever(), I64Const(0))).Bytes())
	f.Add(Guest(Unreachable, Func{Export: "_initialize", Body: Forever(I32Const(1), MemoryGrow, Drop)}).Bytes())
	withTable := Guest(I64Const(0), Func{Export: "graphmill_configure", Params: []byte{I32, I32}, Results: []byte{I64}, Body: I64Const(0)})
	withTable.Table = []byte{FuncRef, 0, 2}
	withTable.Elements = [][]byte{Cat([]byte{0}, I32Const(0), End, Vector([]byte{1}, []byte{2}))}
	withTable.Passive = []string{"data"}
	withTable.Imports = []Import{{Module: "graphmill", Name: "log", Params: []byte{I32, I32, I32}}}
	f.Add(withTable.Bytes())

	failed := make(chan string, 100)
	h, err := wasmhost.New(context.Background(), wasmhost.Config{
		Limits: wasmhost.Limits{
			Time: 20 * time.Millisecond, CompileTime: 5 * time.Second, MaxMemory: 4 << 20, Memory: 4 << 20,
			Counts: meter.Limits{AllLocals: 10_000},
		},
		Logger: slog.New(&onError{failed: failed}),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = h.Close(context.Background()) })
	f.Fuzz(func(t *testing.T, wasm []byte) {
		report, err := h.Check(t.Context(), wasm)
		select {
		case text := <-failed:
			t.Fatal(text)
		default:
		}
		if err != nil {
			var e *graphmill.Error
			if !errors.As(err, &e) || e.Field != "module" || e.Text == "" {
				t.Fatalf("no error about the module: %v", err)
			}
			return
		}
		m, err := h.Load(t.Context(), wasm)
		if err != nil {
			t.Fatal("what was accepted cannot be loaded: ", err)
		}
		defer m.Close(context.Background())
		i, err := m.Instantiate(t.Context(), wasmhost.InstanceConfig{Function: report.Transformations[0], Log: func(slog.Level, string) {}})
		var fault *graphmill.Fault
		if errors.As(err, &fault) {
			return // graphmill_configure
		} else if err != nil {
			t.Fatal(err)
		}
		defer i.Close(context.Background())
		if _, err := i.Transform(t.Context(), graphmill.SourceKafka, batch(2)); err != nil && !errors.As(err, &fault) {
			t.Fatal(err)
		}
	})
}

// onError is a handler of logs that passes errors on: they are defects.
type onError struct{ failed chan<- string }

func (o *onError) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (o *onError) WithAttrs([]slog.Attr) slog.Handler           { return o }
func (o *onError) WithGroup(string) slog.Handler                { return o }
func (o *onError) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	select {
	case o.failed <- text:
	default:
	}
	return nil
}
