package nginxfilters

import (
	"testing"
	"time"

	"weir/internal/plugin/plugintest"
)

func Test(t *testing.T) {
	ph, err := Policy.Compile([]byte(`{"headers":[{"name":"If-Match","append":true},{"name":"X-Gone","append":false},{"name":"Both"}]}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	c := plugintest.NewCtx("/", [2]string{"if-match", "1"}, [2]string{"If-Match", "2"}, [2]string{"X-Gone", "x"}, [2]string{"Both", "y"}, [2]string{"Other", "z"})
	ph.Rewrite(c)
	for name, want := range map[string]bool{"If-Match": false, "X-Gone": false, "Both": false, "Other": true} {
		if _, there := c.Header(name); there != want {
			t.Errorf("%s there: %v", name, there)
		}
	}
	ph.Access(c)
	var values string
	fields := c.Request.Header.Fields()
	for i := range fields {
		if !fields[i].Dropped {
			values += fields[i].Value
		}
	}
	if values != "z12" {
		t.Errorf("the upstream gets %s", values)
	}
}

func TestNothing(t *testing.T) {
	for _, config := range []string{`{}`, `{"headers":[]}`, `{"headers":[{"name":"x"}]}`} {
		ph, err := Policy.Compile([]byte(config), plugintest.Env(time.Now))
		if err != nil || ph.Access != nil {
			t.Errorf("%s: %v", config, err)
		}
	}
}
