package profile

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"reflect"
	"testing"
)

// A frame is what the page draws: its place in a graph 1,000 wide.
type frame struct {
	Name  string `json:"name"`
	Left  int    `json:"left"`
	Row   int    `json:"row"`
	Width int    `json:"width"`
	Found bool   `json:"found"`
}

// TestPage uses the page: zoom, search, plugins merged across phases.
func TestPage(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node, which runs the page's script, is not there")
	}
	a, err := Read(made(t,
		[]any{"a", 10, handle, rewrite, keyAuth},
		[]any{"a", 20, handle, rewrite, counting},
		[]any{"b", 30, handle, access, counting, quota},
		[]any{"", 40, handle, read, "syscall.read", syscall6},
	), "cpu", names)
	if err != nil {
		t.Fatal(err)
	}
	var page, problems bytes.Buffer
	if err := a.WriteHTML(&page, "test"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "testdata/page.js")
	cmd.Stdin, cmd.Stderr = &page, &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	var got struct {
		All, Zoomed, Back, Out, Search, Merged, Plugin, Again []frame
		Note, Hits, Nonsense                                  string
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	all := []frame{
		{"all", 0, 0, 1000, false}, {handle, 0, 1, 1000, false},
		{access, 0, 2, 300, false}, {counting, 0, 3, 300, false}, {quota, 0, 4, 300, false},
		{rewrite, 300, 2, 300, false}, {keyAuth, 300, 3, 100, false}, {counting, 400, 3, 200, false},
		{read, 600, 2, 400, false}, {"syscall.read", 600, 3, 400, false}, {syscall6, 600, 4, 400, false},
	}
	search := append([]frame(nil), all...)
	for _, i := range []int{3, 4, 7} {
		search[i].Found = true // by the plugin's name
	}
	zoomed := []frame{
		{"all", 0, 0, 1000, false}, {handle, 0, 1, 1000, false}, {access, 0, 2, 1000, false}, {counting, 0, 3, 1000, false}, {quota, 0, 4, 1000, false},
	}
	merged := []frame{
		{"all", 0, 0, 1000, false},
		{"(no plugin)", 0, 1, 400, false}, {handle, 0, 2, 400, false}, {read, 0, 3, 400, false}, {"syscall.read", 0, 4, 400, false}, {syscall6, 0, 5, 400, false},
		{"key-auth", 400, 1, 100, false}, {keyAuth, 400, 2, 100, false},
		{"limit-count", 500, 1, 500, false}, {counting, 500, 2, 500, false}, {quota, 500, 3, 300, false},
	}
	plugin := []frame{{"all", 0, 0, 1000, false}, {"limit-count", 0, 1, 1000, false}, {counting, 0, 2, 1000, false}, {quota, 0, 3, 600, false}}
	for what, c := range map[string]struct{ got, want []frame }{
		"all": {got.All, all}, "zoomed": {got.Zoomed, zoomed}, "back": {got.Back, all}, "whole graph": {got.Out, all}, "search": {got.Search, search},
		"merged": {got.Merged, merged}, "one plugin": {got.Plugin, plugin}, "not merged": {got.Again, all},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s:\n%v, want\n%v", what, c.got, c.want)
		}
	}
	if want := access + "  30.0 ms, 30.00 % of all, 30.00 % of what is shown"; got.Note != want {
		t.Errorf("note %q, want %q", got.Note, want)
	}
	if got.Hits != "50.00 % found" || got.Nonsense != "" {
		t.Errorf("hits %q, of nonsense %q", got.Hits, got.Nonsense)
	}
}
