package wasmhost

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/wasmhost/frame"
)

// Transform hands a batch to the guest and returns its answer. Where the guest
// reports that the whole batch failed, or that it stopped in the middle, that is
// in Output.Failures and no error.
//
// Errors: the context's, wrapped, where ctx ends first; else a *graphmill.Fault
// of class message, whose Message is a hint: from the guest's cursor, from the
// statement that is wrong, or WholeBatch. Its Code is
//
//	trap           the guest trapped, exited or ran out of stack
//	deadline       it took longer than its time limit
//	out_of_memory  it had no room for the batch, or trapped after it was refused memory
//	bad_response   its answer breaks the ABI
//	over_limit     its answer is larger than a limit
//
// After an error, every further call is an error.
func (i *Instance) Transform(ctx context.Context, source graphmill.SourceKind, messages []graphmill.Message) (graphmill.Output, error) {
	i.use <- struct{}{}
	defer func() { <-i.use }()
	switch {
	case i.closed:
		return graphmill.Output{}, errors.New("transform a batch: the instance has been closed")
	case i.broken != nil:
		return graphmill.Output{}, &graphmill.Fault{
			Class: graphmill.FaultMessage, Code: codeUnusable, Message: graphmill.WholeBatch,
			Text: "the instance has failed before and cannot be used any more", Err: i.broken,
		}
	}
	out, err := i.transform(ctx, source, messages)
	i.broken = err
	return out, err
}

func (i *Instance) transform(ctx context.Context, source graphmill.SourceKind, messages []graphmill.Message) (graphmill.Output, error) {
	size, err := i.encoder.Plan(i.stream, source, messages)
	if err != nil {
		return graphmill.Output{}, frameFault(err)
	}
	var address uint32 // of the request; 0 until it is written
	var response string
	err = i.within(ctx, func(ctx context.Context) error {
		at, request, err := i.buffer(ctx, size)
		if err != nil {
			return err
		}
		i.encoder.Encode(request)
		address = at
		i.stack = [2]uint64{uint64(address), uint64(size)}
		began := time.Now()
		err = i.fn.CallWithStack(ctx, i.stack[:])
		i.inGuest.Add(int64(time.Since(began)))
		if err != nil {
			return err
		}
		b, err := i.returned(i.stack[0], "the transformation")
		response = string(b) // the one copy: strings of the statements are cut from it
		return err
	})
	if err != nil {
		err = i.explain(err, "transform a batch", graphmill.FaultMessage)
		var fault *graphmill.Fault
		if address != 0 && errors.As(err, &fault) {
			fault.Message = i.cursor(address, len(messages))
		}
		return graphmill.Output{}, err
	}
	out, err := i.decoder.Decode(response, len(messages))
	if err != nil {
		return graphmill.Output{}, frameFault(err)
	}
	return out, nil
}

// cursor reads which message the guest was working on.
func (i *Instance) cursor(address uint32, messages int) int {
	b, ok := i.guest.Memory().Read(address+frame.CursorOffset, 4)
	if !ok {
		return graphmill.WholeBatch
	}
	if at := binary.LittleEndian.Uint32(b); int64(at) < int64(messages) {
		return int(at)
	}
	return graphmill.WholeBatch
}

// frameFault is the fault for a frame that cannot be written or read.
func frameFault(err error) error {
	f := &graphmill.Fault{Class: graphmill.FaultMessage, Code: codeBadResponse, Text: err.Error(), Message: graphmill.WholeBatch}
	var e *frame.Error
	if errors.As(err, &e) {
		f.Message = e.Message
		if e.OverLimit {
			f.Code = codeOverLimit
		}
	}
	if f.Code == codeBadResponse {
		f.Text = "the answer of the module breaks the transformation ABI: " + f.Text
	}
	return f
}
