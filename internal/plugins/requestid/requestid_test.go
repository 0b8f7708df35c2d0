package requestid

import (
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
	"weir/internal/wire"
)

type h = map[string]string

func TestAlgorithms(t *testing.T) {
	for conf, shape := range map[string]string{
		`{}`:                                     `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`,
		`{"algorithm":"uuidv7"}`:                 `^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`,
		`{"algorithm":"nanoid"}`:                 `^[-_0-9A-Za-z]{21}$`,
		`{"algorithm":"ksuid"}`:                  `^[0-9A-Za-z]{27}$`,
		`{"algorithm":"range_id"}`:               `^[0-9A-Za-z]{16}$`,
		`{"algorithm":"range_id","range_id":{}}`: `^[0-9A-Za-z]{16}$`,
		`{"algorithm":"range_id","range_id":{"length":30,"char_set":"abcdef"}}`: `^[a-f]{30}$`,
	} {
		ph, err := Plugin.Compile([]byte(conf), plugintest.Env(time.Now))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for range 1000 {
			ctx := plugintest.NewCtx("/")
			plugintest.Send(ph, ctx)
			id, _ := ctx.Header("X-Request-Id")
			if !regexp.MustCompile(shape).MatchString(id) || seen[id] || ctx.RequestID() != id {
				t.Fatalf("%s: %q, RequestID %q", conf, id, ctx.RequestID())
			}
			seen[id] = true
		}
	}
}

func TestTimes(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_123)
	raw, err := hex.DecodeString(strings.ReplaceAll(string(uuid7(nil, now)), "-", ""))
	if err != nil || binary.BigEndian.Uint64(append([]byte{0, 0}, raw[:6]...)) != uint64(now.UnixMilli()) {
		t.Errorf("%x %v", raw, err)
	}
	n, ok := new(big.Int), true
	for _, c := range string(ksuid(nil, now)) {
		i := strings.IndexRune("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", c)
		n.Add(n.Mul(n, big.NewInt(62)), big.NewInt(int64(i)))
		ok = ok && i >= 0
	}
	if seconds := n.Rsh(n, 128).Int64(); !ok || seconds != now.Unix()-ksuidEpoch {
		t.Errorf("%d seconds", seconds)
	}
}

func TestHeaders(t *testing.T) {
	sent := plugintest.Answer{Header: h{"X-Request-Id": "upstream's"}}
	plugintest.Run(t, Plugin, []plugintest.Case{
		{Name: "kept", Config: `{}`, Requests: []plugintest.Request{
			{Header: h{"x-request-id": "mine"}, Upstream: h{"X-Request-Id": "mine"}, Reply: h{"X-Request-Id": "mine"}},
			{Header: h{"X-Request-Id": "mine"}, Answer: sent, Reply: h{"X-Request-Id": "upstream's"}},
		}},
		{Name: "not in the response", Config: `{"include_in_response":false}`, Requests: []plugintest.Request{
			{Header: h{"X-Request-Id": "mine"}, Reply: h{"X-Request-Id": ""}},
		}},
		{Name: "name", Config: `{"header_name":"X-Custom"}`, Requests: []plugintest.Request{
			{Header: h{"X-Custom": "mine"}, Reply: h{"X-Custom": "mine", "X-Request-Id": ""}},
		}},
		{Name: "algorithm", Config: `{"algorithm":"snowflake"}`, Invalid: `property "algorithm" validation failed: matches none of the enum values`},
		{Name: "type", Config: `{"include_in_response":"bad_type"}`, Invalid: `property "include_in_response" validation failed: wrong type: expected boolean, got string`},
		{Name: "short", Config: `{"range_id":{"length":5}}`, Invalid: `property "range_id" validation failed: property "length" validation failed: expected 5 to be at least 6`},
		{Name: "long", Config: `{"range_id":{"length":5000}}`, Invalid: `property "range_id" validation failed: property "length" validation failed: expected 5000 to be at most 4096`},
		{Name: "few", Config: `{"range_id":{"char_set":"abc"}}`, Invalid: `property "range_id" validation failed: property "char_set" validation failed: string too short, expected at least 6, got 3`},
	})
}

func TestNoAllocation(t *testing.T) {
	if plugintest.Race {
		t.Skip("pools forget under the race detector")
	}
	for _, a := range []string{"uuid", "uuidv7", "nanoid", "ksuid", "range_id"} {
		ph, err := Plugin.Compile([]byte(`{"algorithm":"`+a+`"}`), plugintest.Env(time.Now))
		if err != nil {
			t.Fatal(err)
		}
		ctx, response := plugintest.NewCtx("/"), new(wire.Response)
		if n := testing.AllocsPerRun(100, func() {
			ctx.Reset()
			ctx.Request.Header.Reset()
			response.Reset()
			ctx.Response = response
			plugintest.Send(ph, ctx)
			ph.Header(ctx)
		}); n != 0 {
			t.Errorf("%s: %v allocations", a, n)
		}
	}
}
