package app

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestExplainByControlAPI(t *testing.T) {
	o, _ := options(t, t.TempDir(), "deployment: {admin: {admin_key_required: false, admin_listen: {port: 0}}}")
	g := start(t, o)
	defer stop(t, g)
	write(t, g, "routes/1", `{"uri":"/a/*","plugins":{"key-auth":{}},"upstream":{"nodes":{"127.0.0.1:1":1}}}`)
	root := "http://" + g.Control().String() + "/v1/explain"
	for _, c := range []struct {
		method, query, body string
		status              int
		route, problem      string
	}{
		{"GET", "?url=/a/b", "", 200, "1", ""},
		{"GET", "?url=http://h/a/b%3Fx=1&header=Accept:+x&client=::1", "", 200, "1", ""},
		{"GET", "?url=/b", "", 200, "", ""},
		{"GET", "", "", 400, "", "neither a path"},
		{"GET", "?url=/a&header=x", "", 400, "", "Name: value"},
		{"POST", "", `{"target":"/a/b"}`, 200, "1", ""},
		{"POST", "", `{"target":"/a/b","colour":1}`, 400, "", "unknown field"},
		{"POST", "", `{"target":"/a/b"}{}`, 400, "", "something follows"},
		{"POST", "", `{"target":"` + strings.Repeat("a", maxQuestion) + `"}`, 400, "", "too large"},
		{"PUT", "", `{}`, 404, "", "404 Not Found"},
	} {
		status, said := ask(t, c.method, root+c.query, c.body)
		route := ""
		if said.Route != nil {
			route = said.Route.ID
		}
		if status != c.status || route != c.route || !strings.Contains(said.Problem, c.problem) {
			t.Errorf("%s %s %.40s: %d, route %q, %q", c.method, c.query, c.body, status, route, said.Problem)
		}
	}
}

// One question is answered at a time; who waits for it can give up.
func TestExplainInTurn(t *testing.T) {
	o, _ := options(t, t.TempDir(), "deployment: {admin: {admin_key_required: false, admin_listen: {port: 0}}}")
	g := start(t, o)
	defer stop(t, g)
	root := "http://" + g.Control().String() + "/v1/explain?url=/a"
	g.explaining <- struct{}{} // another one
	answered := make(chan int)
	go func() {
		status, _ := ask(t, "GET", root, "")
		answered <- status
	}()
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errNotExplained)
	w := httptest.NewRecorder()
	g.explainQuery(w, httptest.NewRequestWithContext(over, "GET", "/v1/explain?url=/a", nil))
	if w.Code != 503 || !strings.Contains(w.Body.String(), errNotExplained.Error()) {
		t.Errorf("who gave up: %d %s", w.Code, w.Body)
	}
	select {
	case status := <-answered:
		t.Errorf("answered beside another one: %d", status)
	default:
	}
	<-g.explaining
	if status := <-answered; status != 200 {
		t.Errorf("in turn: %d", status)
	}
}

type saidOrNot struct {
	Explanation
	Problem string `json:"error_msg"`
}

func ask(t *testing.T, method, url, body string) (status int, said saidOrNot) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return res.StatusCode, said
}
