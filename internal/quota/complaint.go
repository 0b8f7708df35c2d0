package quota

import (
	"log/slog"
	"time"

	"weir/internal/monotonic"
	"weir/internal/plugin"
)

// A Complaint tells the operator about requests that cannot be counted, once a
// second at most.
type Complaint struct {
	now           func() time.Time
	log           *slog.Logger
	plugin, owner string
	said          monotonic.Seldom
}

// NewComplaint makes the Complaint of one configuration of the named plugin.
func NewComplaint(env plugin.Env, plugin string) *Complaint {
	return &Complaint{now: env.Now, log: env.Log, plugin: plugin, owner: env.Owner}
}

// Make logs what happened, unless it did a moment ago.
func (c *Complaint) Make(what string, err error) {
	if c.said.Ready(c.now()) {
		c.log.Error(what, "plugin", c.plugin, "owner", c.owner, "err", err)
	}
}

// Refusal is the answer to a refused request: rejected_code and, if it is not
// empty, rejected_msg.
func Refusal(code int, message string) *plugin.Reply {
	if message == "" {
		return &plugin.Reply{Status: code}
	}
	return plugin.JSON(code, map[string]string{"error_msg": message})
}
