package app

import (
	"slices"
	"testing"

	"weir/internal/config"
)

// A name that nobody has is said to have no effect; before, nothing was.
func TestIneffective(t *testing.T) {
	c, err := config.Parse("", []byte("plugins: [key-auth, ai-proxy, keyauth]\nstream_plugins: [mqtt-proxy, none]\nplugin_attr: {prometeus: {}, prometheus: {}}\nfoo: 1\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Ignored{
		{Path: "foo", Why: "unknown key"}, {Path: "plugins.3", Why: `unknown plugin "keyauth"`},
		{Path: "stream_plugins.2", Why: `unknown plugin "none"`}, {Path: "plugin_attr.prometeus", Why: "unknown plugin"},
	}
	if got := Ineffective(c); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	plain, err := config.Parse("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := Ineffective(plain); len(got) > 0 {
		t.Errorf("of the defaults: %+v", got)
	}
}
