package portal

import "testing"

// A portal may answer anything.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		`{"proxy_configs":[{"proxy_config":{"content":{"id":1,"proxy":{"hosts":["a"]}}}}]}`, `{"proxy_config":{"content":{}}}`,
		`{"services":[{"service":{"id":1}}]}`, `{"proxy_configs":[null]}`, `{"proxy_config":null}`, `{"services":{}}`, `[`, `{"proxy_configs":[{"proxy_config":{"content":[]}}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		all, err := readConfigs(body)
		for _, e := range all {
			if err == nil && e == nil {
				t.Errorf("%s: an entry is nil", body)
			}
		}
		if e, err := readConfig(body); err == nil && e == nil {
			t.Errorf("%s: no entry, no error", body)
		}
		if ids, err := readServices(body); err == nil {
			for _, id := range ids {
				if id == "" {
					t.Errorf("%s: an id is empty", body)
				}
			}
		}
	})
}
