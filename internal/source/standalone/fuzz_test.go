package standalone

import (
	"encoding/json"
	"testing"

	"weir/internal/document"
	"weir/internal/model"
	"weir/internal/source/declared"
)

// FuzzDocument: a document that is taken can be read again by the one that follows,
// and its versions never go back.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{
		`{"routes":[{"id":"1","uri":"/a","plugins":{"key-auth":{}}}],"routes_conf_version":3}`, `{"consumers":[{"username":"a","modifiedIndex":1}],"x":1}`,
		`{"routes":[{"id":"1"},{"id":"1"}]}`, `{"upstreams":{},"upstreams_conf_version":1e300}`, `{"plugins":[{"name":"a"}],"routes":null}`, `[]`,
	} {
		f.Add(s, `{"routes_conf_version":3}`)
	}
	checker := &declared.Checker{Documents: documents(), Versioned: true, Compile: func(model.Object) error { return nil }}
	f.Fuzz(func(t *testing.T, first, second string) {
		old := blank()
		for _, text := range []string{first, second} {
			doc, err := document.Parse([]byte(text))
			if err != nil {
				return
			}
			if p := checker.Validate(doc, false, func(declared.Item) bool { return false }); len(p) > 0 {
				return
			}
			next, err := replace(old, doc)
			if err != nil {
				return
			}
			for _, section := range declared.Sections() {
				was, err := declared.SectionVersion(old, section)
				is, nextErr := declared.SectionVersion(next, section)
				if err != nil || nextErr != nil || is < was {
					t.Errorf("%s after %s: %s %v, %v, then %v, %v", second, first, section, was, err, is, nextErr)
				}
			}
			if !json.Valid(next.Append(nil)) {
				t.Errorf("%s", next.Append(nil))
			}
			old = next
		}
	})
}
