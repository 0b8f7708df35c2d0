package oauthmtls

import (
	"testing"
	"time"

	"weir/internal/model"
	"weir/internal/plugin/plugintest"
	"weir/internal/threescale"
)

func Test(t *testing.T) {
	ph, err := Policy.Compile([]byte(`{}`), plugintest.Env(time.Now))
	if err != nil {
		t.Fatal(err)
	}
	c := plugintest.NewCtx("/")
	(&threescale.Product{Product: new(model.Product)}).Begin(c)
	r := plugintest.Send(ph, c)
	if r == nil || r.Status != 401 || string(r.Body) != `{"error": "invalid_token"}` || r.Header[0] != [2]string{"Content-Type", "application/json; charset=utf-8"} {
		t.Errorf("%+v", r)
	}
	if !Policy.Guard {
		t.Error("no guard")
	}
}
