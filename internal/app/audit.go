package app

import (
	"context"
	"log/slog"

	"weir/internal/accesslog"
	"weir/internal/admin"
	"weir/internal/model"
)

// An audit is the log of writes through the Admin API; the zero audit has none.
type audit struct {
	log *accesslog.ErrorLog
	to  *slog.Logger
}

// openAudit opens the audit log: the file that weir.audit_log names, without one
// the error log, whatever its level is.
func (g *Gateway) openAudit(context.Context) error {
	path := g.Config.Weir.AuditLog
	if !g.Config.APISIX.EnableAdmin || path == "off" {
		return nil
	}
	if path == "" {
		path = g.Config.Nginx.ErrorLog
	}
	log, err := accesslog.OpenErrorLog(path, accesslog.LevelNotice)
	if err != nil {
		return err
	}
	g.audit = audit{log, log.Logger()}
	g.onStop(func(context.Context) error { return log.Close() })
	return nil
}

func (a audit) reopen() error {
	if a.log == nil {
		return nil
	}
	return a.log.Reopen()
}

// record puts on record who wrote what. What was written is not told: it may be
// secret.
func (a audit) record(c admin.Change) {
	if a.to == nil {
		return
	}
	attrs := []any{"action", c.Action, "key", c.Who, "peer", c.Peer, "revision", c.Revision, "live", c.Live}
	if c.Object != (model.Key{}) {
		attrs = append([]any{"object", c.Object.String()}, attrs...)
	}
	a.to.Log(context.Background(), accesslog.LevelNotice, "admin: changed", attrs...)
}
