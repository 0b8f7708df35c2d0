package plan

import (
	"encoding/json"
	"errors"
	"fmt"

	"weir/internal/plugin"
)

// meta is the `_meta` member that every plugin configuration may have
// (APISIX: disable, error_response, priority, filter, pre_function).
type meta struct {
	Disable       bool            `json:"disable"`
	Priority      *int            `json:"priority"`
	ErrorResponse json.RawMessage `json:"error_response"`
	Filter        json.RawMessage `json:"filter"`
	PreFunction   string          `json:"pre_function"`
}

func metaOf(raw json.RawMessage) (meta, error) {
	var conf struct {
		Meta meta `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &conf); err != nil {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && len(list) == 0 {
			return meta{}, nil // an empty object, as Lua writes it
		}
		return meta{}, fmt.Errorf("property %q validation failed: %w", "_meta", err)
	}
	m := conf.Meta
	if m.PreFunction != "" {
		return m, errors.New("_meta.pre_function is not supported by this version of Weir yet")
	}
	return m, nil
}

// answerWith replaces the body of refusals (status 400 and above) by the
// configured one: text as it is, anything else as JSON.
func answerWith(body json.RawMessage, f func(*plugin.Ctx) *plugin.Reply) func(*plugin.Ctx) *plugin.Reply {
	if f == nil {
		return nil
	}
	var text string
	if json.Unmarshal(body, &text) != nil {
		text = string(body) + "\n"
	}
	return func(c *plugin.Ctx) *plugin.Reply {
		r := f(c)
		if r == nil || r.Status < 400 {
			return r
		}
		return &plugin.Reply{Status: r.Status, Header: r.Header, Body: []byte(text)}
	}
}
