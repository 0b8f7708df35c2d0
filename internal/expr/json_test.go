package expr

import (
	"encoding/json"
	"testing"
)

func TestAppendJSON(t *testing.T) {
	c := request()
	c.Request.Header.Add("X-Bad", "a\"\xff")
	for name, want := range map[string]string{
		"status": "200", "bytes_sent": "123", "request_length": "77", "request_time": "1.234", "body_bytes_sent": `"10"`,
		"upstream_response_time": `"1.000, 0.034"`, "balancer_port": "81", "host": `"example.com"`, "arg_flag": "true", "arg_x": `"1"`,
		"http_x_bad": `"a\"` + "\uFFFD" + `"`, "http_none": "", "a_plugin_s": "",
	} {
		v, err := Variable(name)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := v.AppendJSON(nil, c)
		if string(got) != want || ok != (want != "") || ok && !json.Valid(got) {
			t.Errorf("%s: got %s %v, want %s", name, got, ok, want)
		}
	}
	c.Sent.Tries = c.Sent.Tries[1:]
	v, _ := Variable("upstream_response_time")
	if got, _ := v.AppendJSON(nil, c); string(got) != "0.034" {
		t.Errorf("%s", got)
	}
	c.Sent.Node, c.Sent.Status, c.Response = "name.test:81", 0, nil
	for name, want := range map[string]string{"status": `"000"`, "upstream_unresolved_host": `"name.test"`} {
		v, _ := Variable(name)
		if got, _ := v.AppendJSON(nil, c); string(got) != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
