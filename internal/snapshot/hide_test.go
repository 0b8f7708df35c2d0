package snapshot

import (
	"strings"
	"testing"

	"weir/internal/document"
)

// What is explained shows no secret, however deep in a configuration it is.
func TestHide(t *testing.T) {
	for _, text := range []string{
		`{"user_key":"s3cret"}`,
		`{"app_id":"a","app_key":"s3cret"}`,
		`{"policy_chain":[{"name":"default_credentials","configuration":{"user_key":"s3cret"}}]}`,
		`{"rules":[{"url":"http://user:s3cret@host:1/x?y"}]}`,
		`{"url":"http://us@er:s3cret@host/"}`,
		`{"redis_url":"redis://:s3cret@host:1/0"}`,
		`{"request":[{"op":"set","header":"Authorization","value":"Bearer s3cret"}]}`,
		`{"commands":[{"op":"set","arg":"api_key","value":"s3cret"}]}`,
		`{"headers":{"set":{"Authorization":"s3cret"},"add":["Cookie: a=s3cret","X-Api-Key:s3cret"]}}`,
		`{"tokens":["s3cret",{"a":"s3cret"}]}`,
	} {
		v, err := document.Parse([]byte(text))
		if err != nil {
			t.Fatal(text, err)
		}
		Hide(v)
		if got := v.String(); strings.Contains(got, "s3cret") || !strings.Contains(got, Hidden) {
			t.Error(text, got)
		}
	}
	for _, text := range []string{
		`{"ips":["10.0.0.0/8"],"url":"http://host/a@b","header":"X-Req","value":"{{ uri }}"}`,
		`{"regex":"^/old","key":{"name":"k","scope":"service"},"count":3,"hide_credentials":false,"mail":"a@b"}`,
	} {
		v, err := document.Parse([]byte(text))
		if err != nil {
			t.Fatal(text, err)
		}
		if Hide(v); v.String() != text {
			t.Error(text, v)
		}
	}
}
