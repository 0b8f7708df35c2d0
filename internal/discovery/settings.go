package discovery

import (
	"encoding/json"

	"weir/internal/schema"
)

// Parse decodes and checks the configuration of one kind. It returns it with
// the defaults in place as JSON, too.
func Parse[C any](raw []byte) (c C, filled json.RawMessage, err error) {
	s := schema.Of[C]()
	if err := s.Decode(raw, &c); err != nil {
		return c, nil, err
	}
	filled, err = s.Fill(raw)
	return c, filled, err
}

// Hide replaces the named properties of a JSON object where they are not empty:
// what the Control API shows has no secrets.
func Hide(object json.RawMessage, names ...string) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	for _, name := range names {
		if v, ok := members[name]; ok && string(v) != `""` {
			members[name] = json.RawMessage(`"(hidden)"`)
		}
	}
	return json.Marshal(members)
}
