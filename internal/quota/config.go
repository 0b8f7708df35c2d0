package quota

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"weir/internal/plugin"
	"weir/internal/redisclient"
	"weir/internal/schema"
)

// Config is limit-count's configuration. Plugins that count something else than
// requests embed it.
type Config struct {
	Count      *Positive `json:"count" doc:"Requests admitted per window; a number or a template that gives one."`
	TimeWindow *Positive `json:"time_window" doc:"Length of the window in seconds; a number or a template that gives one."`
	WindowType string    `json:"window_type" schema:"default=fixed,enum=fixed|sliding" doc:"fixed: windows follow each other, the first begins with the first request. sliding: the window ends now."`
	Rules      []Rule    `json:"rules" doc:"Several limits at once, each with a key of its own, instead of count and time_window."`
	Group      string    `json:"group" doc:"Configurations of the same group count together; they must be equal."`
	Key        string    `json:"key" schema:"default=remote_addr" doc:"What tells callers apart, read as key_type says. The client's address stands in for an absent value."`
	KeyType    string    `json:"key_type" schema:"default=var,enum=var|var_combination|constant" doc:"var: key is a variable's name. var_combination: a template. constant: everybody's key."`

	RejectedCode int    `json:"rejected_code" schema:"default=503,min=200,max=599" doc:"Status of a refused request."`
	RejectedMsg  string `json:"rejected_msg" schema:"minLen=1" doc:"Message of a refused request, as error_msg in a JSON object."`
	Policy       string `json:"policy" schema:"default=local,enum=local|redis|redis-cluster|redis-sentinel" doc:"Where the counters are: in this process or in Redis."`

	AllowDegradation bool    `json:"allow_degradation" schema:"default=false" doc:"Admit requests that cannot be counted, instead of answering 500."`
	ShowHeader       bool    `json:"show_limit_quota_header" schema:"default=true" doc:"Tell clients about the limit in response headers."`
	SyncInterval     float64 `json:"sync_interval" schema:"default=-1" doc:"Seconds between two exchanges with Redis, from 0.1 and below time_window; −1: Redis is asked for every request."`

	redisclient.Config
	redisclient.SentinelConfig

	// Action tells apart the actions of a workflow, which sets it.
	Action int `json:"_vid" schema:"elsewhere"`
}

// A Rule is one of several limits.
type Rule struct {
	Count        *Positive `json:"count" schema:"required" doc:"Requests admitted per window."`
	TimeWindow   *Positive `json:"time_window" schema:"required" doc:"Length of the window in seconds."`
	Key          string    `json:"key" schema:"required" doc:"Template of the key; a rule none of whose variables has a value does not apply."`
	HeaderPrefix *string   `json:"header_prefix" doc:"Word in the names of the response headers, X-WORD-RateLimit-Limit; without it the number of the rule."`
}

// Constraints are APISIX's.
func (*Config) Constraints() []schema.Constraint {
	return []schema.Constraint{
		schema.ExactlyOne([]string{"count", "time_window"}, []string{"rules"}),
		redisclient.Branches(true, ""),
	}
}

var errBoth = errors.New("count/time_window and rules cannot be specified at the same time")

// Reword is an option of the plugins that embed Config: it says what the schema
// cannot say well.
func Reword() plugin.Option {
	return plugin.Reword(func(raw json.RawMessage, err error) error {
		var c struct {
			Count  json.RawMessage `json:"count"`
			Window json.RawMessage `json:"time_window"`
			Rules  json.RawMessage `json:"rules"`
		}
		if strings.Contains(err.Error(), "value should match only one schema") && json.Unmarshal(raw, &c) == nil &&
			(c.Count != nil || c.Window != nil) && c.Rules != nil {
			return errBoth
		}
		return err
	})
}

// Group is an option of the plugins that embed Config: the Admin API refuses a
// configuration that differs from others of its group.
func Group() plugin.Option {
	return plugin.Groups(func(raw json.RawMessage) string {
		var c struct {
			Group string `json:"group"`
		}
		if json.Unmarshal(raw, &c) != nil {
			return ""
		}
		return c.Group
	})
}

// check finds what the schema does not, in APISIX's order and words.
func (c *Config) check() error {
	switch {
	case c.Rules != nil && (c.Count != nil || c.TimeWindow != nil):
		return errBoth
	case c.Group != "" && c.Rules != nil:
		return errors.New("group and rules cannot be specified at the same time")
	case c.Group != "" && c.Action != 0:
		return errors.New("group is not supported")
	case c.Policy != "local" && c.SyncInterval != noSync:
		if c.SyncInterval < 0.1 {
			return errors.New("sync_interval should not be smaller than 0.1")
		}
		if c.TimeWindow == nil {
			break
		}
		if window, fixed := c.TimeWindow.Fixed(); fixed && c.SyncInterval >= float64(window) {
			return errors.New("sync_interval should be smaller than time_window")
		}
	}
	keys := map[string]bool{}
	for _, r := range c.Rules {
		if keys[r.Key] {
			return fmt.Errorf("duplicate key '%s' in rules", r.Key)
		}
		keys[r.Key] = true
	}
	return nil
}

const noSync = -1

// Headers are the names of the response headers about the limit; they are
// limit-count's metadata.
type Headers struct {
	Limit     string `json:"limit_header" schema:"default=X-RateLimit-Limit" doc:"Name of the header with the limit."`
	Remaining string `json:"remaining_header" schema:"default=X-RateLimit-Remaining" doc:"Name of the header with what remains of it."`
	Reset     string `json:"reset_header" schema:"default=X-RateLimit-Reset" doc:"Name of the header with the seconds until the window is over."`
}

// with inserts a rule's word: X-RateLimit-Limit becomes X-WORD-RateLimit-Limit.
func (h Headers) with(word string) Headers {
	insert := func(name string) string {
		return strings.Replace(name, "RateLimit-", word+"-RateLimit-", 1)
	}
	return Headers{insert(h.Limit), insert(h.Remaining), insert(h.Reset)}
}
