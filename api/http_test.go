package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/api"
	"github.com/graphmill/graphmill/server"
)

func TestBadRequestsNameWhatIsWrong(t *testing.T) {
	never := &stub{}
	base := serve(t, never, api.Config{MaxModuleBytes: 1000})
	good := `{"name":"s","topics":["t"],"transform":"m"`
	for name, c := range map[string]struct {
		request
		status int
		code   string
		field  string
		detail string // a part of it
	}{
		"no such path":              {request{method: "GET", path: "/api/v1/nothing"}, 404, "no_such_path", "", "/api/v1/nothing"},
		"very long path":            {request{method: "GET", path: "/" + strings.Repeat("x", 50_000)}, 404, "no_such_path", "", "/" + strings.Repeat("x", 199) + "..."},
		"no such action":            {request{method: "POST", path: "/api/v1/streams/s:pause"}, 404, "no_such_path", "", "/api/v1/streams/s:pause"},
		"an action with GET":        {request{method: "GET", path: "/api/v1/streams/s:start"}, 405, "method_not_allowed", "", "takes POST, not GET"},
		"wrong method":              {request{method: "POST", path: "/api/v1/streams/s"}, 405, "method_not_allowed", "", "takes GET, PATCH and DELETE"},
		"no name":                   {request{method: "GET", path: "/api/v1/streams/"}, 404, "no_such_path", "", ""},
		"bad name":                  {request{method: "GET", path: "/api/v1/streams/a%20b"}, 422, "invalid", "name", `' '`},
		"name with a slash":         {request{method: "POST", path: "/api/v1/streams/a%2Fb:start"}, 422, "invalid", "name", `'/'`},
		"unknown parameter":         {request{method: "GET", path: "/api/v1/streams?wtch=true"}, 422, "invalid", "wtch", "no such query parameter"},
		"very long parameter":       {request{method: "GET", path: "/api/v1/streams?" + strings.Repeat("x", 5000)}, 422, "invalid", strings.Repeat("x", 200) + "...", "no such query parameter"},
		"parameter twice":           {request{method: "PUT", path: "/api/v1/modules/m?activate=true&activate=false", contentType: "application/wasm", body: "x"}, 422, "invalid", "activate", "given twice"},
		"broken query":              {request{method: "GET", path: "/api/v1/streams?a=%zz"}, 400, "malformed", "", "%zz"},
		"semicolon in the query":    {request{method: "GET", path: "/api/v1/streams?a;b"}, 400, "malformed", "", "semicolon"},
		"unknown parameter, near":   {request{method: "PUT", path: "/api/v1/modules/m?activat=false", contentType: "application/wasm", body: "x"}, 422, "invalid", "activat", "did you mean activate?"},
		"parameter of another type": {request{method: "PUT", path: "/api/v1/modules/m?activate=maybe", contentType: "application/wasm", body: "x"}, 422, "invalid", "activate", "boolean"},
		"version that is no number": {request{method: "GET", path: "/api/v1/modules/m/versions/two"}, 422, "invalid", "version", "integer"},
		"version 0":                 {request{method: "GET", path: "/api/v1/modules/m/versions/0"}, 422, "invalid", "version", ">= 1"},

		"no body":            {request{method: "POST", path: "/api/v1/streams", contentType: jsonType}, 400, "body_missing", "", "application/json is needed"},
		"no content type":    {request{method: "POST", path: "/api/v1/streams", body: good + "}"}, 415, "content_type", "Content-Type", "application/json"},
		"form":               {request{method: "POST", path: "/api/v1/streams", contentType: "application/x-www-form-urlencoded", body: good + "}"}, 415, "content_type", "Content-Type", "x-www-form-urlencoded"},
		"JSON as a module":   {request{method: "PUT", path: "/api/v1/modules/m", contentType: jsonType, body: "{}"}, 415, "content_type", "Content-Type", "application/wasm"},
		"other charset":      {request{method: "POST", path: "/api/v1/streams", contentType: "application/json; charset=latin1", body: good + "}"}, 415, "content_type", "Content-Type", "latin1"},
		"compressed":         {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: "x", header: map[string]string{"Content-Encoding": "gzip"}}, 415, "content_encoding", "", "gzip"},
		"broken JSON":        {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: "{\n  \"name\": }"}, 400, "malformed", "", "line 2, column 11"},
		"cut JSON":           {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: good}, 400, "malformed", "", "unexpected end"},
		"garbage behind":     {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: good + "} x"}, 400, "malformed", "", "after top-level value"},
		"a list":             {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: "[]"}, 422, "invalid", "", "expected object"},
		"missing field":      {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: `{"name":"s","topics":["t"]}`}, 422, "invalid", "transform", "transform: is needed"},
		"unknown field":      {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: good + `,"colour":1}`}, 422, "invalid", "colour", "no such field"},
		"unknown near field": {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: good + `,"batchsize":1}`}, 422, "invalid", "batchsize", "did you mean batch_size?"},
		"wrong type":         {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: good + `,"batch_size":"many"}`}, 422, "invalid", "batch_size", "expected integer"},
		"wrong type inside":  {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: `{"name":"s","topics":["t",7],"transform":"m"}`}, 422, "invalid", "topics[1]", "expected string"},
		"negative size":      {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: good + `,"batch_size":-1}`}, 422, "invalid", "batch_size", ">= 1"},
		"zero size":          {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: good + `,"batch_bytes":0}`}, 422, "invalid", "batch_bytes", ">= 1"},
		"huge number":        {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: good + `,"batch_bytes":1e300}`}, 422, "invalid", "batch_bytes", "1e300 is no integer"},
		"float for integer":  {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: good + `,"batch_size":1e3}`}, 422, "invalid", "batch_size", "digits alone"},
		"number over int32":  {request{method: "POST", path: "/api/v1/modules/m/transformations/f:run", contentType: jsonType, body: `{"messages":[{},{"partition":3000000000}]}`}, 422, "invalid", "messages[1].partition", "32 bits"},
		"field twice":        {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: good + `,"name":"t"}`}, 422, "invalid", "name", "given twice"},
		"setting twice":      {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: good + `,"settings":{"a":"1","a":"2"}}`}, 422, "invalid", "settings.a", "given twice"},
		"field in capitals":  {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: `{"Name":"s","topics":["t"],"transform":"m"}`}, 422, "invalid", "Name", "did you mean name?"},
		"capitals inside":    {request{method: "POST", path: "/api/v1/modules/m/transformations/f:run", contentType: jsonType, body: `{"messages":[{},{"Payload":"x"}]}`}, 422, "invalid", "messages[1].Payload", "did you mean payload?"},
		"no UTF-8":           {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: good + ",\"settings\":{\"a\":\"\xff\"}}"}, 400, "malformed", "", "no valid UTF-8, first at byte"},
		"nested too deep":    {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: `{"name":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}"}, 422, "invalid", "name" + strings.Repeat("[0]", 64), "more than 64 deep"},
		"too many values":    {request{method: "POST", path: "/api/v1/modules/m/transformations/f:run", contentType: jsonType, body: `{"messages":[` + strings.Repeat("{},", 500_000) + "{}]}"}, 413, "too_large", "", "500000 values"},
		"binary header":      {request{method: "POST", path: "/api/v1/modules/m/transformations/f:run", contentType: jsonType, body: `{"messages":[{"headers":[["k",{"base64":"YQ==","more":"YQ=="}]]}]}`}, 422, "invalid", "", "headers: the value"},
		"null list":          {request{method: "POST", path: "/api/v1/modules/m/transformations/f:run", contentType: jsonType, body: `{"messages":null}`}, 422, "invalid", "messages", "expected array"},
		"not one of":         {request{method: "POST", path: "/api/v1/streams", contentType: jsonType, body: good + `,"coalesce":"maybe"}`}, 422, "invalid", "coalesce", "on, off"},
		"option of stop":     {request{method: "POST", path: "/api/v1/streams/s:stop", contentType: jsonType, body: `{"batch_limit":1}`}, 422, "invalid", "batch_limit", "no such field"},
		"start of nothing":   {request{method: "POST", path: "/api/v1/streams/s:start", contentType: jsonType, body: `{"batch_limit":0}`}, 422, "invalid", "batch_limit", ">= 1"},
		"check of nothing":   {request{method: "POST", path: "/api/v1/streams/s:check", contentType: jsonType, body: `{"batch_limit":0}`}, 422, "invalid", "batch_limit", ">= 1"},
		"check for ever":     {request{method: "POST", path: "/api/v1/streams/s:check", contentType: jsonType, body: `{"timeout_ms":6000001}`}, 422, "invalid", "timeout_ms", "<= 600000"},
		"no messages":        {request{method: "POST", path: "/api/v1/modules/m/transformations/f:run", contentType: jsonType, body: `{"messages":[]}`}, 422, "invalid", "messages", ">= 1"},
		"two payloads":       {request{method: "POST", path: "/api/v1/modules/m/transformations/f:run", contentType: jsonType, body: `{"messages":[{},{"payload":"a","payload_base64":"YQ=="}]}`}, 422, "invalid", "messages[1].payload_base64", "payload is given too"},
		"no base64":          {request{method: "POST", path: "/api/v1/modules/m/transformations/f:run", contentType: jsonType, body: `{"messages":[{"key_base64":"!"}]}`}, 422, "invalid", "messages[0].key_base64", "no base64"},
		"half a header":      {request{method: "POST", path: "/api/v1/modules/m/transformations/f:run", contentType: jsonType, body: `{"messages":[{"headers":[["k"]]}]}`}, 422, "invalid", "messages[0].headers[0]", ">= 2"},

		"module over the limit":           {request{method: "PUT", path: "/api/v1/modules/m", contentType: "application/wasm", body: strings.Repeat("x", 1001)}, 413, "too_large", "", "1000 bytes"},
		"module over the limit, streamed": {request{method: "PUT", path: "/api/v1/modules/m", contentType: "application/wasm", body: strings.Repeat("x", 1001), header: map[string]string{"X-Streamed": "1"}}, 413, "too_large", "", "1000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			status, header, body := send(t, base, c.request)
			require.Equal(t, c.status, status, "%v", body)
			require.Equal(t, "application/problem+json", header.Get("Content-Type"))
			require.EqualValues(t, c.status, body["status"])
			require.Equal(t, c.code, body["code"], "%v", body)
			require.Equal(t, "urn:graphmill:problem:"+c.code, body["type"])
			require.Contains(t, body["detail"], c.detail)
			require.Equal(t, header.Get("X-Request-Id"), body["request_id"])
			if c.field == "" {
				require.NotContains(t, body, "field")
			} else {
				require.Equal(t, c.field, body["field"])
			}
		})
	}
}

func TestSeveralWrongFieldsAreAllTold(t *testing.T) {
	base := serve(t, &stub{}, api.Config{})
	_, _, body := send(t, base, request{
		method: "POST", path: "/api/v1/streams", contentType: jsonType,
		body: `{"name":"s","topics":[1],"transform":2,"settings":{"password":"hunter2","n":3}}`,
	})
	require.Len(t, body["errors"], 3)
	require.NotContains(t, fmt.Sprint(body), "hunter2", "values of a request are not echoed")
}

func TestAnswerToManyWrongFieldsIsBounded(t *testing.T) {
	base := serve(t, &stub{}, api.Config{})
	_, _, body := send(t, base, request{
		method: "POST", path: "/api/v1/streams", contentType: jsonType,
		body: `{"name":"s","transform":"m","topics":[` + strings.Repeat("1,", 10_000) + `1]}`,
	})
	require.Len(t, body["errors"], 20)
}

func TestErrorsOfTheEngineGetTheirStatus(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		code   string
		detail string
	}{
		"invalid":                  {graphmill.Invalid("start_from", "%q is no time", "x"), 422, "invalid", `start_from: "x" is no time`},
		"not found":                {graphmill.NotFound("stream_not_found", "there is no stream s"), 404, "stream_not_found", "there is no stream s"},
		"conflict":                 {fmt.Errorf("start: %w", graphmill.Conflict("group_in_use", "the group is in use")), 409, "group_in_use", "start: the group is in use"},
		"too large":                {&graphmill.Error{Kind: graphmill.KindTooLarge, Text: "too large"}, 413, "too_large", "too large"},
		"unavailable":              {&graphmill.Error{Kind: graphmill.KindUnavailable, Code: "broker_unreachable", Text: "no broker"}, 503, "broker_unreachable", "no broker"},
		"timeout":                  {&graphmill.Error{Kind: graphmill.KindTimeout, Code: "timeout", Text: "too long"}, 504, "timeout", "too long"},
		"outage":                   {&graphmill.Fault{Class: graphmill.FaultTransient, Code: "broker_unreachable", Text: "gone", Err: errors.New("refused")}, 503, "broker_unreachable", "gone: refused"},
		"set-up":                   {&graphmill.Fault{Class: graphmill.FaultSetup, Code: "auth", Text: "wrong password"}, 422, "auth", "wrong password"},
		"message":                  {&graphmill.Fault{Class: graphmill.FaultMessage, Code: "trap", Text: "unreachable executed"}, 422, "trap", "unreachable executed"},
		"deadline":                 {context.DeadlineExceeded, 504, "timeout", "time limit"},
		"cancelled":                {fmt.Errorf("check: %w", context.Canceled), 503, "cancelled", "given up"},
		"full disk of the catalog": {&graphmill.Error{Kind: graphmill.KindInternal, Code: "catalog", Text: "write the catalog", Err: &os.PathError{Op: "write", Path: "/secret/path", Err: syscall.ENOSPC}}, 507, "storage_full", "is full"},
		"full disk":                {fmt.Errorf("write the catalog: %w", &os.PathError{Op: "write", Path: "/secret/path", Err: syscall.ENOSPC}), 507, "storage_full", "is full"},
		"internal":                 {errors.New("disk on fire at /secret/path"), 500, "internal", "internal error"},
		"also":                     {&graphmill.Error{Kind: graphmill.KindInternal, Text: "disk on fire"}, 500, "internal", "internal error"},
	} {
		t.Run(name, func(t *testing.T) {
			var log syncBuffer
			base := serve(t, &stub{stream: func(string) (server.StreamInfo, error) {
				return server.StreamInfo{}, c.err
			}}, api.Config{Logger: logTo(&log)})
			status, header, body := send(t, base, request{method: "GET", path: "/api/v1/streams/s"})
			require.Equal(t, c.status, status)
			require.Equal(t, c.code, body["code"])
			require.Contains(t, body["detail"], c.detail)
			if c.status == 500 {
				require.NotContains(t, fmt.Sprint(body), "fire", "what is internal is not told")
				require.Contains(t, log.String(), "disk on fire")
				require.Contains(t, log.String(), header.Get("X-Request-Id"))
			}
		})
	}
}

func TestPanicEndsOneRequestOnly(t *testing.T) {
	var log syncBuffer
	base := serve(t, &stub{stream: func(string) (server.StreamInfo, error) { panic("boom") }}, api.Config{Logger: logTo(&log)})
	status, _, body := send(t, base, request{method: "GET", path: "/api/v1/streams/s"})
	require.Equal(t, 500, status)
	require.Equal(t, "internal", body["code"])
	require.Contains(t, log.String(), "boom")
	require.Contains(t, log.String(), "http_test.go", "the log has the stack")

	status, _, _ = send(t, base, request{method: "GET", path: "/healthz"})
	require.Equal(t, 200, status)
}

func TestActionsReachNamesOfAllKinds(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/streams/s:start":         "s",
		"/api/v1/streams/a.b-c_D.9:start": "a.b-c_D.9",
		"/api/v1/streams/a%2Eb:start":     "a.b",
		"/api/v1/streams/%61b:start":      "ab",
		"/api/v1/streams/s%3Astart":       "s",
		"/api/v1/streams/start:start":     "start",
	} {
		var got string
		base := serve(t, &stub{stream: func(name string) (server.StreamInfo, error) {
			got = name
			return server.StreamInfo{}, nil
		}}, api.Config{})
		status, _, body := send(t, base, request{method: "POST", path: path})
		require.Equal(t, 200, status, "%s: %v", path, body)
		require.Equal(t, want, got)
	}

	var got string
	base := serve(t, &stub{run: func(r server.RunRequest) (server.RunResult, error) {
		got = r.Function
		return server.RunResult{}, nil
	}}, api.Config{})
	status, _, _ := send(t, base, request{
		method: "POST", path: "/api/v1/modules/m/transformations/on:insert:run",
		contentType: jsonType, body: `{"messages":[{}]}`,
	})
	require.Equal(t, 200, status)
	require.Equal(t, "on:insert", got, "the action is what follows the last colon")
}

func TestWebPagesAreKeptOut(t *testing.T) {
	started := false
	e := &stub{
		stream: func(string) (server.StreamInfo, error) { started = true; return server.StreamInfo{}, nil },
	}
	local := serve(t, e, api.Config{LocalOnly: true})
	start := func(base string, header map[string]string) int {
		started = false
		status, _, _ := send(t, base, request{method: "POST", path: "/api/v1/streams/s:start", header: header})
		require.Equal(t, status == 200, started)
		return status
	}
	require.Equal(t, 200, start(local, nil))
	require.Equal(t, 200, start(local, map[string]string{"Host": "localhost:7480"}))
	require.Equal(t, 200, start(local, map[string]string{"Host": "[::1]:7480"}))
	require.Equal(t, 200, start(local, map[string]string{"Origin": local}), "a page of this server's own")
	require.Equal(t, 403, start(local, map[string]string{"Origin": "https://evil.example"}))
	require.Equal(t, 403, start(local, map[string]string{"Origin": "null"}))
	require.Equal(t, 403, start(local, map[string]string{"Sec-Fetch-Site": "cross-site"}))
	require.Equal(t, 403, start(local, map[string]string{"Host": "rebound.example"}))
	require.Equal(t, 403, start(local, map[string]string{"Host": "127.0.0.1.evil.example"}))
	require.Equal(t, 403, start(local, map[string]string{"Host": "127.0.0.1:evil.example"}))

	public := serve(t, e, api.Config{})
	require.Equal(t, 200, start(public, map[string]string{"Host": "graphmill.internal"}))
	require.Equal(t, 403, start(public, map[string]string{"Host": "graphmill.internal", "Origin": "https://evil.example"}))
}

func TestUploadReachesTheEngineWhole(t *testing.T) {
	var got server.PushRequest
	created := true
	base := serve(t, &stub{push: func(r server.PushRequest) (server.PushResult, error) {
		got = r
		return server.PushResult{Created: created, Module: graphmill.Module{Name: r.Name, Version: 3}}, nil
	}}, api.Config{})
	file := string([]byte{0, 'a', 's', 'm', 0xff})

	status, header, body := send(t, base, request{method: "PUT", path: "/api/v1/modules/m", contentType: "application/wasm", body: file})
	require.Equal(t, 201, status)
	require.Equal(t, "/api/v1/modules/m/versions/3", header.Get("Location"))
	require.Equal(t, []any{}, body["transformations"], "lists are never null")
	require.Equal(t, []any{}, body["checked"])
	require.Equal(t, server.PushRequest{Name: "m", ContentType: "application/wasm", Bytes: []byte(file)}, got)

	created = false
	status, _, _ = send(t, base, request{method: "PUT", path: "/api/v1/modules/m?activate=false", contentType: "application/wasm", body: file})
	require.Equal(t, 200, status)
	require.True(t, got.NoActivate)
}

func TestCreateHandsTheDefinitionOn(t *testing.T) {
	var got graphmill.StreamSpec
	var checked bool
	base := serve(t, &stub{create: func(spec graphmill.StreamSpec, check bool) (server.StreamInfo, error) {
		got, checked = spec, check
		return server.StreamInfo{Spec: spec.WithDefaults(), Warnings: []string{"there is no module m"}}, nil
	}}, api.Config{})
	status, header, body := send(t, base, request{
		method: "POST", path: "/api/v1/streams", contentType: "application/json; charset=utf-8",
		body: `{"name":"s","topics":["a","b"],"transform":"m.f","batch_size":7,"settings":{"k":"v"},"check":false}`,
	})
	require.Equal(t, 201, status)
	require.Equal(t, "/api/v1/streams/s", header.Get("Location"))
	require.False(t, checked)
	require.Equal(t, graphmill.StreamSpec{
		Name: "s", Topics: []string{"a", "b"}, Transform: "m.f", BatchSize: 7, Settings: map[string]string{"k": "v"},
	}, got)
	require.Equal(t, []any{"there is no module m"}, body["warnings"])
	require.Equal(t, "graphmill.s", body["consumer_group"])
}

func TestRunAndCheckShowValuesExactly(t *testing.T) {
	q := &graphmill.Query{Text: "CREATE (:N {x: $x})", Names: []string{"x"}}
	out := graphmill.Output{
		Statements: []graphmill.Statement{
			{Query: q, Values: []any{int64(9007199254740993)}, Message: 0},
			{Query: &graphmill.Query{Text: "RETURN 1"}, Message: graphmill.WholeBatch},
		},
		Failures: []graphmill.Failure{{Message: 1, Text: "no id", Retry: true}},
	}
	var ran server.RunRequest
	var asked server.CheckRequest
	base := serve(t, &stub{
		run: func(r server.RunRequest) (server.RunResult, error) {
			ran = r
			return server.RunResult{Output: out, Log: []server.LogLine{{Level: "info", Text: "hi"}}, Duration: 1500 * time.Microsecond, Memory: 65536}, nil
		},
		check: func(_ string, r server.CheckRequest) ([]server.CheckBatch, error) {
			asked = r
			return []server.CheckBatch{{Output: out, Messages: []graphmill.Message{
				{Topic: "t", Partition: 2, Offset: 40, Payload: []byte{0xff}, Key: []byte{}, Timestamp: 5, Headers: []graphmill.Header{{Key: "a"}, {Key: "b", Value: []byte{0xfe}}, {Key: "c", Value: []byte("x")}}},
				{Topic: "t", Partition: 2, Offset: 41},
			}}}, nil
		},
	}, api.Config{})

	resp, err := http.Post(base+"/api/v1/modules/m/transformations/f:run", jsonType, strings.NewReader(
		`{"messages":[{"payload":"{}","key":"k","topic":"t","partition":1,"offset":9007199254740993,"timestamp":7,"headers":[["a","1"],["a",null],["b",{"base64":"/w=="}]]},{"payload_base64":""},{"payload":""}],"settings":{"s":"v"}}`))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, 200, resp.StatusCode)
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	require.NoError(t, err)
	require.Contains(t, b.String(), `9007199254740993`, "all digits of an integer")
	require.JSONEq(t, `{
		"statements": [
			{"query": "CREATE (:N {x: $x})", "parameters": {"x": 9007199254740993}, "message": {"topic": "t", "partition": 1, "offset": 9007199254740993}},
			{"query": "RETURN 1", "parameters": {}}],
		"failures": [{"message": {"topic": "", "partition": 0, "offset": 1}, "text": "no id", "retry": true}],
		"log": [{"level": "info", "text": "hi"}], "duration_ms": 1.5, "memory_bytes": 65536}`, b.String())
	require.Equal(t, []graphmill.Message{
		{Topic: "t", Partition: 1, Offset: 9007199254740993, Payload: []byte("{}"), Key: []byte("k"), Timestamp: 7, BrokerTime: -1,
			Headers: []graphmill.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "b", Value: []byte{0xff}}}},
		{Offset: 1, Payload: []byte{}, BrokerTime: -1},
		{Offset: 2, Payload: []byte{}, BrokerTime: -1},
	}, ran.Messages)
	require.Equal(t, map[string]string{"s": "v"}, ran.Settings)

	status, _, body := send(t, base, request{method: "POST", path: "/api/v1/streams/s:check"})
	require.Equal(t, 200, status)
	require.Equal(t, server.CheckRequest{BatchLimit: 1, Timeout: 30 * time.Second, From: "committed"}, asked)
	batch := body["batches"].([]any)[0].(map[string]any)
	raw, err := json.Marshal(batch["raw_messages"])
	require.NoError(t, err)
	require.JSONEq(t, `[
		{"payload": null, "payload_base64": "/w==", "key": "", "topic": "t", "partition": 2, "offset": 40, "timestamp": 5, "headers": [["a", null], ["b", {"base64": "/g=="}], ["c", "x"]]},
		{"payload": null, "key": null, "topic": "t", "partition": 2, "offset": 41, "timestamp": 0}]`, string(raw))

	_, _, _ = send(t, base, request{method: "POST", path: "/api/v1/streams/s:check", contentType: jsonType, body: `{"batch_limit":3,"timeout_ms":50,"from":"earliest"}`})
	require.Equal(t, server.CheckRequest{BatchLimit: 3, Timeout: 50 * time.Millisecond, From: "earliest"}, asked)
}

func TestStartAllTellsOfEach(t *testing.T) {
	base := serve(t, &stub{
		all: func() ([]server.Changed, error) {
			return []server.Changed{
				{StreamInfo: server.StreamInfo{Spec: graphmill.StreamSpec{Name: "a"}, State: graphmill.StateStopped}, Err: graphmill.Conflict("group_in_use", "the group is in use")},
				{StreamInfo: server.StreamInfo{Spec: graphmill.StreamSpec{Name: "b"}, State: graphmill.StateRunning}},
			}, nil
		},
	}, api.Config{})
	status, _, body := send(t, base, request{method: "POST", path: "/api/v1/streams:start"})
	require.Equal(t, 200, status)
	streams := body["streams"].([]any)
	require.Equal(t, "group_in_use", streams[0].(map[string]any)["error"].(map[string]any)["code"])
	require.Equal(t, "stopped", streams[0].(map[string]any)["state"])
	require.Equal(t, map[string]any{"name": "b", "state": "running"}, streams[1])
}

func TestProbes(t *testing.T) {
	e := &stub{}
	base := serve(t, e, api.Config{})
	status, _, _ := send(t, base, request{method: "GET", path: "/healthz"})
	require.Equal(t, 200, status)
	status, _, _ = send(t, base, request{method: "HEAD", path: "/healthz"})
	require.Equal(t, 200, status)
	status, _, _ = send(t, base, request{method: "GET", path: "/readyz"})
	require.Equal(t, 200, status)

	e.ready = &graphmill.Error{Kind: graphmill.KindUnavailable, Code: "shutting_down", Text: "the server is shutting down"}
	status, _, body := send(t, base, request{method: "GET", path: "/readyz"})
	require.Equal(t, 503, status)
	require.Equal(t, "shutting_down", body["code"])
}

func TestBodyThatTricklesInDoesNotHoldTheEndOfTheServer(t *testing.T) {
	h, err := api.New(&stub{}, api.Config{})
	require.NoError(t, err)
	requests, end := context.WithCancel(t.Context())
	srv := httptest.NewUnstartedServer(h)
	srv.Config.BaseContext = func(net.Listener) context.Context { return requests }
	srv.Start()
	t.Cleanup(srv.Close)

	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "PUT /api/v1/modules/m HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/wasm\r\n"+
		"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n")
	require.NoError(t, err)
	answer := bufio.NewReader(conn)
	line, err := answer.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "100 Continue", "the server reads the body now")
	_, err = answer.ReadString('\n')
	require.NoError(t, err)

	end()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	resp, err := http.ReadResponse(answer, nil)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, 503, resp.StatusCode)
}

// A body that stops in the middle ends the request: it is the client's doing,
// and no defect.
func TestClientThatGoesAwayIsNoError(t *testing.T) {
	var log syncBuffer
	base := serve(t, &stub{}, api.Config{Logger: logTo(&log)})
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	require.NoError(t, err)
	_, err = fmt.Fprint(conn, "PUT /api/v1/modules/m HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/wasm\r\nContent-Length: 10\r\n\r\nabc")
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "status=400") }, time.Minute, 5*time.Millisecond)
	require.NoError(t, conn.Close())
}

func TestDocumentationIsWholeInItself(t *testing.T) {
	base := serve(t, &stub{}, api.Config{Version: "1.2.3"})
	resp, err := http.Get(base + "/docs")
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Contains(t, resp.Header.Get("Content-Type"), "text/html")
	for _, want := range []string{"1.2.3", "/api/v1/streams/{name}:check", `href="#schema-CheckRequest"`, `id="schema-CheckRequest"`, "batch_interval_ms"} {
		require.Contains(t, b.String(), want)
	}
	require.NotRegexp(t, `(src|href)="(https?:)?//`, b.String(), "nothing from another host")
}

func TestOpenAPIDescribesEveryField(t *testing.T) {
	doc, err := api.OpenAPI("dev")
	require.NoError(t, err)
	var parsed struct {
		OpenAPI    string
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Description string
					Ref         string `json:"$ref"`
				}
			}
		}
		Paths map[string]map[string]struct {
			Responses map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(doc, &parsed))
	require.Equal(t, "3.1.0", parsed.OpenAPI)
	require.NotContains(t, parsed.Components.Schemas, "ErrorModel")
	for name, schema := range parsed.Components.Schemas {
		for field, p := range schema.Properties {
			require.NotEmpty(t, p.Description, "%s.%s", name, field)
		}
	}
	for path, methods := range parsed.Paths {
		for method, op := range methods {
			require.Contains(t, op.Responses, "default", "%s %s", method, path)
		}
	}
	require.Contains(t, parsed.Paths, "/api/v1/streams/{name}:start")
}

// The file that clients are generated from. `go generate ./api` writes it.
func TestOpenAPIFileIsCurrent(t *testing.T) {
	want, err := api.OpenAPI("v1")
	require.NoError(t, err)
	got, err := os.ReadFile("../docs/openapi.json")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run: go generate ./api")
}

func TestStartingAnswersBeforeTheEngineIsThere(t *testing.T) {
	h := api.Starting(api.Config{LocalOnly: true})
	base := serveHandler(t, h)
	status, _, _ := send(t, base, request{method: "GET", path: "/healthz"})
	require.Equal(t, 200, status)
	for _, path := range []string{"/readyz", "/api/v1/streams"} {
		status, header, body := send(t, base, request{method: "GET", path: path})
		require.Equal(t, 503, status)
		require.Equal(t, "starting", body["code"])
		require.Equal(t, "1", header.Get("Retry-After"))
	}
}

// syncBuffer is a buffer for a logger that other goroutines write to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
