package headers

import (
	"testing"

	"weir/internal/plugin"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale/threescaletest"
)

type h = map[string]string

// values looks for all values of a request's header.
func values(name string, want ...string) func(*testing.T, *plugin.Ctx) {
	return func(t *testing.T, c *plugin.Ctx) {
		t.Helper()
		var got []string
		fields := c.Request.Header.Fields()
		for i := range fields {
			if !fields[i].Dropped && fields[i].Name == name {
				got = append(got, fields[i].Value)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %q, want %q", name, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
}

func TestRequest(t *testing.T) {
	threescaletest.Run(t, Policy, []plugintest.Case{
		{Name: "nothing", Config: `{}`, Requests: []plugintest.Request{{}}},
		{
			Name: "set", Config: `{"request":[{"op":"set","header":"New","value":"n"},{"op":"set","header":"Old","value":"o"},{"op":"set","header":"Gone","value":""}]}`,
			Requests: []plugintest.Request{{Header: h{"Old": "x", "Gone": "x"}, Upstream: h{"New": "n", "Old": "o"}, Gone: []string{"Gone"}}},
		},
		{
			Name: "push", Config: `{"request":[{"op":"push","header":"X","value":"1"},{"op":"push","header":"X","value":2},{"op":"push","header":"X","value":""}]}`,
			Requests: []plugintest.Request{{Header: h{"X": "0"}, Look: values("X", "0", "1", "2")}, {Look: values("X", "1", "2")}},
		},
		{
			Name: "add", Config: `{"request":[{"op":"add","header":"X","value":"1"}]}`,
			Requests: []plugintest.Request{{Header: h{"X": "0"}, Look: values("X", "0", "1")}, {Gone: []string{"X"}}},
		},
		{
			Name: "delete", Config: `{"request":[{"op":"delete","header":"x"}]}`,
			Requests: []plugintest.Request{{Fields: [][2]string{{"X", "1"}, {"X", "2"}}, Gone: []string{"X"}}, {Gone: []string{"X"}}},
		},
		{
			Name: "template", Config: `{"request":[{"op":"set","header":"A","value":"{{ service.id }}-{{ headers.b }}","value_type":"liquid"},{"op":"set","header":"C","value":"{{ 'something' | md5 }}","value_type":"liquid"},{"op":"set","header":"D","value":"{{ x","value_type":"liquid"}]}`,
			Requests: []plugintest.Request{{Header: h{"B": "b", "D": "d"}, Upstream: h{"A": "42-b", "C": "437b930db84b8079c2dd804a71936b5f"}, Gone: []string{"D"}}},
		},
		{
			Name: "line feeds of a caller", Config: `{"request":[{"op":"set","header":"A","value":"{{ uri }}","value_type":"liquid"}]}`,
			Requests: []plugintest.Request{{Target: "/x\r\nEvil:%201", Look: values("Evil")}},
		},
		{Name: "unknown operation", Config: `{"request":[{"op":"swap","header":"X"}]}`, Invalid: "op"},
		{Name: "unknown kind", Config: `{"request":[{"op":"set","header":"X","value":"","value_type":"lua"}]}`, Invalid: "value_type"},
	})
}

func TestResponse(t *testing.T) {
	threescaletest.Run(t, Policy, []plugintest.Case{
		{
			Name: "all", Config: `{"response":[{"op":"set","header":"New","value":"n"},{"op":"set","header":"Old","value":"o"},{"op":"set","header":"Gone","value":""},
				{"op":"add","header":"None","value":"x"},{"op":"delete","header":"Off"},{"op":"set","header":"under_score","value":"u"},
				{"op":"push","header":"Id","value":"{{ request_id | size }}{{ uri }}","value_type":"liquid"}]}`,
			Requests: []plugintest.Request{{
				Target: "/p",
				Answer: plugintest.Answer{Header: h{"Old": "x", "Gone": "x", "Off": "x"}},
				Reply:  h{"New": "n", "Old": "o", "Gone": "", "None": "", "Off": "", "Under-Score": "u", "Id": "1/p"},
			}},
		},
	})
}

func TestPlainAllocatesNothing(t *testing.T) {
	ph, err := Policy.Compile([]byte(`{"request":[{"op":"set","header":"A","value":"1"},{"op":"delete","header":"B"}]}`), plugintest.Env(nil))
	if err != nil {
		t.Fatal(err)
	}
	c := plugintest.NewCtx("/", [2]string{"B", "1"})
	c.Request.Header.Add("A", "")
	run := func() {
		c.Request.Header.Reset()
		ph.Rewrite(c)
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if ph.Header != nil || ph.Log != nil {
		t.Error("what is not configured costs")
	}
}
