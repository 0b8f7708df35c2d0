// Package phaselogger logs the phases that requests pass.
package phaselogger

import (
	"context"
	"log/slog"

	"weir/internal/plugin"
)

// Policy is phase_logger.
var Policy = plugin.Define(
	plugin.Meta{Name: "phase_logger", Doc: "Logs the phases that requests pass."},
	compile,
)

// Config is the policy's configuration.
type Config struct {
	Level string `json:"log_level" doc:"Level as nginx names it: stderr, emerg, alert, crit, err, error, warn, notice, info; anything else: debug."`
}

// levels are those of the error log (package accesslog).
var levels = map[string]slog.Level{
	"stderr": slog.LevelError + 12, "emerg": slog.LevelError + 12, "alert": slog.LevelError + 8, "crit": slog.LevelError + 4,
	"err": slog.LevelError, "error": slog.LevelError, "warn": slog.LevelWarn, "notice": slog.LevelInfo + 2, "info": slog.LevelInfo,
}

func compile(c *Config, env plugin.Env) (p plugin.Phases, err error) {
	level, ok := levels[c.Level]
	if !ok {
		level = slog.LevelDebug
	}
	if !env.Log.Enabled(context.Background(), level) {
		return p, nil
	}
	log := env.Log.With("owner", env.Owner)
	say := func(phase string) { log.Log(context.Background(), level, "running phase: "+phase) }
	step := func(phase string) func(*plugin.Ctx) *plugin.Reply {
		return func(*plugin.Ctx) *plugin.Reply {
			say(phase)
			return nil
		}
	}
	p.Rewrite, p.Access, p.Content, p.BeforeProxy = step("rewrite"), step("access"), step("content"), step("balancer")
	p.Header = func(*plugin.Ctx) { say("header_filter") }
	p.Body = func(*plugin.Ctx) plugin.BodyFilter {
		say("body_filter")
		return nil
	}
	p.Log = func(*plugin.Ctx) {
		say("post_action")
		say("log")
	}
	return p, nil
}
