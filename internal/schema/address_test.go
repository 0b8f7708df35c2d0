package schema

import "testing"

func TestAddresses(t *testing.T) {
	type config struct {
		List Addresses `json:"list" schema:"minItems=1"`
	}
	s := Of[config]()
	var c config
	if err := s.Decode([]byte(`{"list":["127.0.0.1","10.0.0.0/8","::1","2001:db8::/32"]}`), &c); err != nil || len(c.List) != 4 {
		t.Error(c, err)
	}
	for doc, want := range map[string]string{
		`{"list":[]}`:              `property "list" validation failed: expect array to have at least 1 items`,
		`{"list":["10.0.0.0/33"]}`: `property "list" validation failed: failed to validate item 1: object matches none of the required`,
		`{"list":["::1","host"]}`:  `property "list" validation failed: failed to validate item 2: object matches none of the required`,
	} {
		if err := s.Decode([]byte(doc), new(config)); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", doc, err, want)
		}
	}
}
